"""The id of each request, which every line of its log has, and who sends it."""

import re
import uuid

from flask import Flask, Response, g, request

from migration_service.log import request_id
from migration_service.origin import SERVICE, ActorKind, Origin, set_origin

_REQUEST_ID = re.compile(r"[A-Za-z0-9_.:-]{1,128}", re.ASCII)


def identify_requests(app: Flask) -> None:
    """Give every request of `app` an id, the client's own if it sends one."""
    app.before_request(_take_request_id)
    app.after_request(_give_request_id)
    app.teardown_request(_forget_origin)


def _take_request_id() -> None:
    given = request.headers.get("X-Request-ID", "")
    g.request_id = given if _REQUEST_ID.fullmatch(given) else uuid.uuid4().hex
    request_id.set(g.request_id)
    # Until a token or a session says who it is.
    set_origin(Origin(kind=ActorKind.UNKNOWN, address=request.remote_addr, request_id=g.request_id))


def _forget_origin(_error: BaseException | None) -> None:
    set_origin(SERVICE)


def _give_request_id(response: Response) -> Response:
    response.headers["X-Request-ID"] = g.get("request_id", "")
    return response
