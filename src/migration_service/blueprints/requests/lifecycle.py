"""The beginning and the end of every request: its id, its sender, its headers, its line in the log.

The line has the route's template instead of the path, because the path may contain an external account
number. It has no query string and no body.
"""

import logging
import re
import secrets
import time
from collections.abc import Callable
from functools import cache

from flask import Flask, Response
from flask.globals import app_ctx, request_ctx
from werkzeug.sansio.utils import get_host

from migration_service.blueprints.requests.application import INTERFACE, require_text_in_path
from migration_service.blueprints.requests.body import forget_body
from migration_service.blueprints.requests.holding import disregard_effects
from migration_service.blueprints.requests.places import leave_place, leave_with_last_byte
from migration_service.config import Settings
from migration_service.db.cancelling import is_followed
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


#: What guards data in browsers, and forbids caching. It is here and not in nginx, so that no other proxy, or
#: none at all, leaves it out. Responses contain customers' data or tokens.
DATA_HEADERS = (
    ("X-Content-Type-Options", "nosniff"),
    ("Referrer-Policy", "no-referrer"),
    ("Content-Security-Policy", _DATA_POLICY),
    ("Cache-Control", "no-store"),
)


def guard_data(response: Response) -> None:
    """Add headers that restrict browsers and forbid caching."""
    given = {name.lower(): value for name, value in response.headers}
    # A response that may be cached has its own header.
    response.headers.extend([it for it in DATA_HEADERS if it[0].lower() not in given])
    if given.get("content-type", "").startswith("text/html"):
        response.headers["Content-Security-Policy"] = _PAGE_POLICY


def follow_requests(app: Flask, settings: Settings, guard: Callable[[Response], None] = guard_data) -> None:
    """Begin and end every request of `app`. Register this first, to include the time of other handlers.

    A request whose host is not allowed, or whose path is not text, is refused. `guard` adds headers to each
    response.
    """
    is_allowed = make_host_check(settings)

    @app.before_request
    def begin() -> None:
        asked, here = request_ctx.request, app_ctx.g
        here.setdefault("began_at", time.monotonic())  # unless the request is repeated
        is_followed.set(False)
        given = here.get("request_id") or asked.headers.get("X-Request-ID")
        here.request_id = identify(given, asked.remote_addr)
        disregard_effects()
        if not asked.path.startswith(_ANY_HOST) and not is_allowed(asked.headers.get("Host")):
            raise HostNotAllowedError
        # The interface checks the names in its paths after the token.
        if asked.routing_exception or not asked.path.startswith(INTERFACE):
            require_text_in_path()

    @app.after_request
    def end(response: Response) -> Response:
        guard(response)
        response.headers.add("X-Request-ID", app_ctx.g.get("request_id", ""))
        leave_with_last_byte(response)
        _log_with_last_byte(response)
        return response

    @app.teardown_request
    def forget(_error: BaseException | None) -> None:
        set_origin(SERVICE)
        forget_body()
        leave_place()


def identify(given: str | None, address: str | None) -> str:
    """Return the id of the current request, which is in all of its log lines: that given, or a new one."""
    id_ = given if given and _REQUEST_ID.fullmatch(given) else secrets.token_hex(16)
    request_id.set(id_)
    # A token or a session identifies the sender later.
    set_origin(Origin(kind=ActorKind.UNKNOWN, address=address, request_id=id_))
    return id_


def make_host_check(settings: Settings) -> Callable[[str | None], bool]:
    """Return the function that tells whether a Host header, with or without a port, is allowed."""
    allowed = {name.strip("[] ").lower() for name in settings.allowed_hosts.split(",")} - {""}

    def is_allowed(header: str | None) -> bool:
        if not allowed:
            return True
        host = get_host("http", header)
        name = host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() else host
        return name.strip("[]").lower() in allowed

    return is_allowed


def _log_with_last_byte(response: Response) -> None:
    asked = request_ctx.request
    method = asked.method if asked.method in _METHODS else "OTHER"
    route = asked.url_rule.rule if asked.url_rule else "none"
    # Do not refer to the response, which would keep itself alive through its own callbacks.
    known = method, route, response.status_code, app_ctx.g.began_at, current_origin()
    # A list is streamed: the request ends when the last byte has been sent, not here.
    response.call_on_close(lambda: log_request(*known))


def log_request(method: str, route: str, status: int, began_at: float, origin: Origin) -> None:
    """Write the line of a request, and count its time."""
    seconds = time.monotonic() - began_at
    _seconds_of(method, route, str(status)).observe(seconds)
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
            "request_id": origin.request_id,
            "api_key": origin.actor,
            "organisation_id": origin.organisation_id,
            "address": origin.address,
        },
    )


# Methods, routes and statuses are few.
_seconds_of = cache(REQUEST_SECONDS.labels)
