"""The id of each request, which is in all of its log lines, and the sender."""

import re
import uuid

from flask import Flask, Response, g, request

from migration_service.log import request_id
from migration_service.origin import SERVICE, ActorKind, Origin, set_origin

_REQUEST_ID = re.compile(r"[A-Za-z0-9_.:-]{1,128}", re.ASCII)


def identify_requests(app: Flask) -> None:
    """Give every request of `app` an id. If the client sends one, use it."""
    app.before_request(_take_request_id)
    app.after_request(_give_request_id)
    app.teardown_request(_forget_origin)


def _take_request_id() -> None:
    given = request.headers.get("X-Request-ID", "")
    g.setdefault("request_id", given if _REQUEST_ID.fullmatch(given) else uuid.uuid4().hex)
    request_id.set(g.request_id)
    # A token or a session identifies the sender later.
    set_origin(Origin(kind=ActorKind.UNKNOWN, address=request.remote_addr, request_id=g.request_id))


def _forget_origin(_error: BaseException | None) -> None:
    set_origin(SERVICE)


def _give_request_id(response: Response) -> Response:
    response.headers["X-Request-ID"] = g.get("request_id", "")
    return response
