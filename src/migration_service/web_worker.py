"""gunicorn's threaded worker with a limit on how slowly a client may send and read.

gunicorn waits for a request's bytes without limit, so a few hundred connections that send nothing would
occupy every thread. Here a request has a time limit, which grows with what it has sent: large bodies over
slow connections are accepted, and connections that send nothing are closed.

This is the only module that uses internals of gunicorn.
"""

import contextlib
import json
import socket
import struct
import time
import uuid
from http import HTTPStatus
from typing import Any

from gunicorn import util
from gunicorn.http import errors
from gunicorn.http.errors import NoMoreData, ParseException
from gunicorn.http.parser import RequestParser
from gunicorn.workers.gthread import TConn, ThreadWorker
from werkzeug.exceptions import BadRequest, RequestTimeout

from migration_service.config import Settings

#: A client gets another second for this many bytes.
LEAST_RATE = 10_000
#: Seconds after which a client that does not read its answer is disconnected.
_STALLED_READER = 30


#: The status and the code of what gunicorn cannot read; everything else is 400.
_REFUSALS: dict[type[Exception], tuple[HTTPStatus, str, str]] = {
    errors.LimitRequestLine: (
        HTTPStatus.REQUEST_URI_TOO_LONG,
        "uri_too_long",
        "The request line is longer than {0.limit_request_line} bytes.",
    ),
    errors.LimitRequestHeaders: (
        HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
        "headers_too_large",
        "At most {0.limit_request_fields} headers of {0.limit_request_field_size} bytes each are allowed.",
    ),
    errors.ExpectationFailed: (
        HTTPStatus.EXPECTATION_FAILED,
        "expectation_failed",
        "The only supported expectation is 100-continue.",
    ),
    errors.UnsupportedTransferCoding: (
        HTTPStatus.NOT_IMPLEMENTED,
        "parse_error",
        "The only supported Transfer-Encoding is chunked.",
    ),
}
_OTHER = (HTTPStatus.BAD_REQUEST, "parse_error", "The request is not well-formed HTTP/1.1.")
_FAILURE = (HTTPStatus.INTERNAL_SERVER_ERROR, "error", "An unexpected error. Nothing was changed.")


# These are errors in the headers of a response, which are the application's fault.
_OUR_FAULT = (errors.InvalidResponseHeader, errors.InvalidResponseHeaderName, errors.ConfigurationProblem)


def is_client_error(exception: BaseException) -> bool:
    """Return whether the client sent something that gunicorn cannot read. Otherwise the server failed."""
    return isinstance(exception, errors.ParseException) and not isinstance(exception, _OUR_FAULT)


def describe_refusal(exception: BaseException, settings: Any, request_id: str) -> bytes:
    """Return the whole HTTP answer to a request that gunicorn could not serve.

    `settings` are gunicorn's own: messages name the limits among them.
    """
    fallback = _OTHER if is_client_error(exception) else _FAILURE
    found = (refusal for kind, refusal in _REFUSALS.items() if isinstance(exception, kind))
    status, code, text = next(found, fallback)
    detail = text.format(settings)
    item = {"detail": detail, "code": code, "attr": None}
    body = json.dumps({"detail": detail, "code": code, "errors": [item]}).encode()
    head = [
        f"HTTP/1.1 {status.value} {status.phrase}",
        "Connection: close",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
        "Cache-Control: no-store",
        "X-Content-Type-Options: nosniff",
        f"X-Request-ID: {request_id}",
    ]
    return "\r\n".join([*head, "", ""]).encode("ascii") + body


class ClientTooSlowError(NoMoreData):  # type: ignore[misc]  # gunicorn has no types
    """The request did not arrive in time."""


class PacedSocket:
    """A socket that stops receiving from a client that is too slow."""

    def __init__(self, connection: socket.socket, time_limit: float) -> None:
        self._socket = connection
        self._time_limit = time_limit
        self.restart()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._socket, name)

    def restart(self) -> None:
        """Start the time of another request."""
        self._deadline = time.monotonic() + self._time_limit

    def recv(self, size: int) -> bytes:
        """Return what the client sent. Raise ClientTooSlowError if its time has run out."""
        left = self._deadline - time.monotonic()
        outer = self._socket.gettimeout()
        if left <= 0:
            raise ClientTooSlowError
        self._socket.settimeout(left if outer is None else min(left, outer))
        try:
            received = self._socket.recv(size)
        except TimeoutError as error:
            raise ClientTooSlowError from error
        finally:
            self._socket.settimeout(outer)
        self._deadline += len(received) / LEAST_RATE
        return received


class _BodyReader:
    """Reads a request's body, and translates its errors into HTTP errors."""

    def __init__(self, reader: Any) -> None:
        self._reader = reader

    def read(self, size: int) -> bytes:
        try:
            data: bytes = self._reader.read(size)
        except ClientTooSlowError as error:
            raise RequestTimeout("The body did not arrive in time.") from error
        except ParseException as error:
            raise BadRequest("The body's chunks are not well-formed.") from error
        return data


class PacedWorker(ThreadWorker):  # type: ignore[misc]  # gunicorn has no types
    """The `worker_class` of gunicorn.conf.py."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.time_limit = Settings.from_env().request_seconds

    def handle(self, conn: TConn) -> Any:
        """Handle one request of a connection in a thread, and start its time."""
        if conn.parser is None and not self.cfg.is_ssl:
            conn.sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", _STALLED_READER, 0))
            conn.parser = RequestParser(self.cfg, PacedSocket(conn.sock, self.time_limit), conn.client)
        elif isinstance(connection := getattr(conn.parser.unreader, "sock", None), PacedSocket):
            connection.restart()
        return super().handle(conn)

    def handle_request(self, req: Any, conn: TConn) -> Any:
        """Call the application once the head of the request has arrived."""
        req.body.reader = _BodyReader(req.body.reader)
        return super().handle_request(req, conn)

    def handle_error(self, _req: Any, client: Any, _addr: Any, exc: BaseException) -> None:
        """Answer a request that cannot be read, in the form of all other errors."""
        request_id = uuid.uuid4().hex
        if is_client_error(exc):
            self.log.warning("Request %s cannot be read: %s", request_id, type(exc).__name__)
        else:
            self.log.error("Request %s failed in the web server.", request_id, exc_info=exc)
        with contextlib.suppress(OSError):
            util.write_nonblock(client, describe_refusal(exc, self.cfg, request_id))
