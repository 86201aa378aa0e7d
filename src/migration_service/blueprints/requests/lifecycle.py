"""The beginning and the end of every request: its id, its sender, its headers, its line in the log.

The line has the route's template instead of the path, because the path may contain an external account
number. It has no query string and no body.
"""

import logging
import re
import time
import uuid
from collections.abc import Callable

from flask import Flask, Response, g, request
from werkzeug.sansio.utils import get_host

from migration_service.blueprints.requests.application import require_text_in_path
from migration_service.blueprints.requests.body import INTERFACE, forget_body
from migration_service.blueprints.requests.holding import disregard_effects
from migration_service.blueprints.requests.places import leave_place, leave_with_last_byte
from migration_service.config import Settings
from migration_service.errors import HostNotAllowedError
from migration_service.log import request_id
from migration_service.metrics.process import REQUEST_SECONDS
from migration_service.origin import SERVICE, ActorKind, Origin, current_origin, set_origin

logger = logging.getLogger(__name__)

_REQUEST_ID = re.compile(r"[A-Za-z0-9_.:-]{1,128}", re.ASCII)
_METHODS = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}
#: Paths that monitoring requests every few seconds. They are not logged.
_QUIET = ("/health/", "/metrics")
#: Load balancers, orchestrators and Prometheus address a process by its IP address there.
_ANY_HOST = _QUIET
#: For data: a browser must not run any of it, or show it in a frame.
_DATA_POLICY = "default-src 'none'; frame-ancestors 'none'"
# The page of the description loads nothing from other servers, and runs no inline scripts.
_PAGE_POLICY = (
    "default-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


def guard_data(response: Response) -> None:
    """Add headers that restrict browsers and forbid caching.

    They are here and not in nginx, so that no other proxy, or none at all, leaves them out.
    """
    headers = response.headers
    headers["X-Content-Type-Options"] = "nosniff"
    headers["Referrer-Policy"] = "no-referrer"
    is_page = response.mimetype == "text/html"
    headers["Content-Security-Policy"] = _PAGE_POLICY if is_page else _DATA_POLICY
    # Responses contain customers' data or tokens. A response that may be cached has its own header.
    headers.setdefault("Cache-Control", "no-store")


def follow_requests(app: Flask, settings: Settings, guard: Callable[[Response], None] = guard_data) -> None:
    """Begin and end every request of `app`. Register this first, to include the time of other handlers.

    A request whose host is not allowed, or whose path is not text, is refused. `guard` adds headers to each
    response.
    """
    allowed = {name.strip("[] ").lower() for name in settings.allowed_hosts.split(",")} - {""}

    @app.before_request
    def begin() -> None:
        g.setdefault("began_at", time.monotonic())  # unless the request is repeated
        _identify()
        disregard_effects()
        if allowed and not request.path.startswith(_ANY_HOST) and _host_name() not in allowed:
            raise HostNotAllowedError
        # The interface checks the names in its paths after the token.
        if request.routing_exception or not request.path.startswith(INTERFACE):
            require_text_in_path()

    @app.after_request
    def end(response: Response) -> Response:
        guard(response)
        response.headers["X-Request-ID"] = g.get("request_id", "")
        leave_with_last_byte(response)
        _log_with_last_byte(response)
        return response

    @app.teardown_request
    def forget(_error: BaseException | None) -> None:
        set_origin(SERVICE)
        forget_body()
        leave_place()


def _identify() -> None:
    """Give the request an id, which is in all of its log lines. If the client sends one, use it."""
    given = request.headers.get("X-Request-ID", "")
    g.setdefault("request_id", given if _REQUEST_ID.fullmatch(given) else uuid.uuid4().hex)
    request_id.set(g.request_id)
    # A token or a session identifies the sender later.
    set_origin(Origin(kind=ActorKind.UNKNOWN, address=request.remote_addr, request_id=g.request_id))


def _host_name() -> str:
    """Return the host of the Host header without its port."""
    host = get_host("http", request.headers.get("Host"))
    name = host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() else host
    return name.strip("[]").lower()


def _log_with_last_byte(response: Response) -> None:
    began_at = g.began_at
    method = request.method if request.method in _METHODS else "OTHER"
    route = request.url_rule.rule if request.url_rule else "none"
    id_ = request_id.get()
    origin = current_origin()
    # Do not refer to the response, which would keep itself alive through its own callbacks.
    status = response.status_code

    # A list is streamed: the request ends when the last byte has been sent, not here.
    @response.call_on_close
    def end() -> None:
        seconds = time.monotonic() - began_at
        REQUEST_SECONDS.labels(method, route, str(status)).observe(seconds)
        logger.log(
            logging.DEBUG if route.startswith(_QUIET) else logging.INFO,
            "%s %s %d in %.0f ms",
            method,
            route,
            status,
            seconds * 1000,
            extra={
                "method": method,
                "route": route,
                "status": status,
                "duration_ms": round(seconds * 1000, 1),
                "request_id": id_,
                "api_key": origin.actor,
                "organisation_id": origin.organisation_id,
                "address": origin.address,
            },
        )
