"""Logs each request in one line, and records its duration for the metrics.

The line has the route's template instead of the path, because the path may contain an external account
number. It has no query string and no body.
"""

import logging
import time

from flask import Flask, Response, g, request

from migration_service.log import request_id
from migration_service.metrics.process import REQUEST_SECONDS
from migration_service.origin import current_origin

logger = logging.getLogger(__name__)

_METHODS = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}
#: Paths that monitoring requests every few seconds. They are not logged.
_QUIET = ("/health/", "/metrics")


def observe_requests(app: Flask) -> None:
    """Log and time every request of `app`. Register it first, to include the time of other handlers."""
    app.before_request(_begin)
    app.after_request(_end_with_last_byte)


def _begin() -> None:
    g.setdefault("began_at", time.monotonic())  # unless the request is repeated


def _end_with_last_byte(response: Response) -> Response:
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

    return response
