"""Metrics for Prometheus. They require the token, or are limited to this machine if no token is set."""

import hmac
import re
from ipaddress import ip_address

from flask import Blueprint, Response, current_app, request

from migration_service.blueprints.metrics_collector import ServiceMetrics
from migration_service.blueprints.requests.resources import resources
from migration_service.errors import NotFoundError, UnauthenticatedError
from migration_service.metrics.process import CONTENT_TYPE, exposition

blueprint = Blueprint("metrics", __name__)

_EXTENSION = "migration_service_metrics"
#: Headers that a proxy adds. If one is present, the address does not show whether the client is local.
_PROXY_HEADERS = ("Forwarded", "X-Forwarded-For", "X-Real-Ip", "Via")
_LOOPBACK = re.compile(r"(localhost|127(\.\d{1,3}){3}|\[::1\])(:\d+)?", re.ASCII)


@blueprint.get("/metrics")
def metrics() -> Response:
    """Return all metrics in the text format of Prometheus. Raise NotFoundError or UnauthenticatedError."""
    settings = resources().settings
    _require_permission(settings.metrics_token)
    return Response(
        exposition(_service_metrics(), shared_folder=settings.metrics_folder), content_type=CONTENT_TYPE
    )


def _require_permission(token: str) -> None:
    if token:
        given = request.headers.get("Authorization", "")
        if not hmac.compare_digest(given.encode(), f"Bearer {token}".encode()):
            raise UnauthenticatedError("The metrics require their bearer token.")
    elif not _asked_from_here():
        raise NotFoundError


def _asked_from_here() -> bool:
    forwarded = any(header in request.headers for header in _PROXY_HEADERS)
    peer = request.remote_addr
    # The name of another site can resolve to this machine. Browsers then send that name as the host.
    named_here = _LOOPBACK.fullmatch(request.host) is not None
    # A client of a Unix socket has no address.
    is_here = peer == "" or (peer is not None and ip_address(peer).is_loopback)
    return not forwarded and named_here and is_here


def _service_metrics() -> ServiceMetrics:
    known = current_app.extensions.get(_EXTENSION)
    if not isinstance(known, ServiceMetrics):
        shared = resources()
        known = ServiceMetrics(shared)
        current_app.extensions[_EXTENSION] = known
    return known
