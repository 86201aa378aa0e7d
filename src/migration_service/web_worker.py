"""gunicorn's threaded worker, with time limits for slow clients.

gunicorn waits for the bytes of a request without limit, so a few hundred idle connections would occupy every
thread. Here a connection waits in the selector until the head of its request is complete, and only then gets
a thread. The time limit of a request grows with the bytes sent, so that large bodies over slow connections
are accepted. The same applies to clients that read the answer slowly.

This is the only module that uses internals of gunicorn.
"""

import contextlib
import errno
import json
import selectors
import socket
import time
import uuid
from collections import deque
from functools import partial
from http import HTTPStatus
from typing import Any

from gunicorn import util
from gunicorn.glogging import Logger
from gunicorn.http import errors
from gunicorn.http.errors import NoMoreData, ParseException
from gunicorn.http.parser import RequestParser
from gunicorn.workers.gthread import TConn, ThreadWorker
from werkzeug.exceptions import BadRequest, RequestTimeout

from migration_service.config import Settings

#: The number of bytes, sent or read, for which a client gets another second.
LEAST_RATE = 10_000
#: The largest head of a request (request line and headers), in bytes.
MAX_HEAD = 65_536
#: The largest number of waiting connections. Beyond it, the one that has waited longest is closed.
_SPARE_CONNECTIONS = 100
#: The largest unread body that gunicorn reads after the answer, in bytes. Beyond it, gunicorn closes the
#: connection.
_MOST_READ_AFTER = 65_536
#: Seconds that a closing connection is kept to read data from the client, because a reset could reach the
#: client before the answer: since the last data, and in total.
_LINGER_SECONDS = 2.0
_LONGEST_LINGERING = 30.0
#: The largest number of such connections. Beyond it, the oldest is closed.
_MOST_LINGERING = 500
#: Seconds that a thread waits for the next request of a connection, and the largest number of waiting
#: threads.
_STAY_SECONDS = 0.02
_MOST_STAYING = 64
_END_OF_HEAD = b"\r\n\r\n"

#: The status and code of requests that gunicorn cannot read. All others are 400.
_REFUSALS: dict[type[Exception], tuple[HTTPStatus, str, str]] = {
    errors.LimitRequestLine: (
        HTTPStatus.REQUEST_URI_TOO_LONG,
        "uri_too_long",
        "The request line is longer than {0.limit_request_line} bytes.",
    ),
    errors.LimitRequestHeaders: (
        HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
        "headers_too_large",
        "At most {0.limit_request_fields} headers of {0.limit_request_field_size} bytes each are read, and "
        f"{MAX_HEAD} bytes together.",
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


# These are errors in the headers of a response, caused by the application.
_OUR_FAULT = (errors.InvalidResponseHeader, errors.InvalidResponseHeaderName, errors.ConfigurationProblem)


def is_client_error(exception: BaseException) -> bool:
    """Return whether the client sent a request that gunicorn cannot read. Otherwise the server failed."""
    return isinstance(exception, errors.ParseException) and not isinstance(exception, _OUR_FAULT)


def describe_refusal(exception: BaseException, settings: Any, request_id: str) -> bytes:
    """Return the complete HTTP response to a request that gunicorn could not serve.

    `settings` are those of gunicorn, whose limits the messages name.
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
    """A socket that stops receiving from a client that is too slow.

    Its time starts with the first receive, so the service's own work does not count.
    """

    def __init__(self, connection: socket.socket, time_limit: float) -> None:
        self._socket = connection
        self._time_limit = time_limit
        self._deadline: float | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._socket, name)

    def restart(self) -> None:
        """Restart the time for the next request."""
        self._deadline = None

    def recv(self, size: int) -> bytes:
        """Return data from the client. Raise ClientTooSlowError if its time has run out."""
        now = time.monotonic()
        if self._deadline is None:
            self._deadline = now + self._time_limit
        left = self._deadline - now
        if left <= 0:
            raise ClientTooSlowError
        received = self._receive_at_once(size)
        if received is None:
            received = self._receive_within(left, size)
        self._deadline += len(received) / LEAST_RATE
        return received

    def _receive_at_once(self, size: int) -> bytes | None:
        """Return the data that has arrived, or None. Most requests arrive whole, and need no time limit."""
        try:
            return self._socket.recv(size, socket.MSG_DONTWAIT)
        except (BlockingIOError, TimeoutError):
            return None

    def _receive_within(self, seconds: float, size: int) -> bytes:
        outer = self._socket.gettimeout()
        self._socket.settimeout(seconds if outer is None else min(seconds, outer))
        try:
            return self._socket.recv(size)
        except TimeoutError as error:
            raise ClientTooSlowError from error
        finally:
            self._socket.settimeout(outer)


class PacedWriter:
    """A socket that stops sending to a client that reads too slowly. Only the time of sending counts.

    It keeps the head of an answer, and sends it together with the body: one packet instead of two. `flush`
    sends it if there is no body. This also applies to files, because gunicorn.conf.py disables `sendfile`.
    """

    def __init__(self, connection: socket.socket, time_limit: float) -> None:
        self._socket = connection
        self._left = self._time_limit = time_limit
        self._head: bytes | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._socket, name)

    def sendall(self, data: bytes) -> None:
        """Send `data`. Raise BrokenPipeError if the client's time has run out."""
        if self._head is None:
            self._head = data
        else:
            head, self._head = self._head, b""
            self._send(head + data if head else data)

    def flush(self) -> None:
        """Send the head of an answer without a body."""
        if self._head:
            self.sendall(b"")

    def _send(self, data: bytes) -> None:
        try:
            sent = self._socket.send(data, socket.MSG_DONTWAIT)
        except (BlockingIOError, TimeoutError):
            sent = 0
        self._left = min(self._left + sent / LEAST_RATE, self._time_limit)
        if sent < len(data):
            self._send_slowly(memoryview(data)[sent:])

    def _send_slowly(self, rest: memoryview) -> None:
        outer = self._socket.gettimeout()
        try:
            while rest:
                began = time.monotonic()
                self._socket.settimeout(max(0.001, self._left))
                sent = self._socket.send(rest[:65_536])
                # Data that the system only buffers earns no time, which a client could then spend without
                # reading.
                earned = sent / LEAST_RATE - (time.monotonic() - began)
                self._left = min(self._left + earned, self._time_limit)
                if self._left <= 0:
                    raise TimeoutError
                rest = rest[sent:]
        except TimeoutError as error:
            raise BrokenPipeError(errno.EPIPE, "The client reads too slowly.") from error
        finally:
            self._socket.settimeout(outer)


class _BodyReader:
    """A reader of a request's body, which translates errors into HTTP errors.

    Once the request is `answered`, gunicorn reads the rest of it to find the next one. An error can then no
    longer be answered, and only ends the connection.
    """

    def __init__(self, reader: Any) -> None:
        self._reader = reader
        self.answered = False

    def leaves_too_much(self) -> bool:
        """Return whether the connection must be closed, because too much of the body is unread."""
        ends_unseen = getattr(self._reader, "parser", None) is not None  # for a chunked body
        return ends_unseen or getattr(self._reader, "length", 0) >= _MOST_READ_AFTER

    def read(self, size: int) -> bytes:
        try:
            data: bytes = self._reader.read(size)
        except (ClientTooSlowError, ParseException) as error:
            if self.answered:
                raise NoMoreData from error
            if isinstance(error, ClientTooSlowError):
                raise RequestTimeout("The body did not arrive in time.") from error
            raise BadRequest("The body's chunks are not well-formed.") from error
        return data


class ServerLog(Logger):  # type: ignore[misc]  # gunicorn has no types
    """The `logger_class` of gunicorn.conf.py, which logs gunicorn's own messages but no requests."""

    def access(self, *_request: Any) -> None:
        """Do nothing. gunicorn would format the line although no handler writes it."""


class PacedWorker(ThreadWorker):  # type: ignore[misc]  # gunicorn has no types
    """The `worker_class` of gunicorn.conf.py."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.time_limit = Settings.from_env().request_seconds
        self._lingering: deque[TConn] = deque()
        #: Connections whose thread waits for the next request. Adding to a set and removing from it need no
        #: lock.
        self._staying: set[TConn] = set()

    def accept(self, listener: socket.socket) -> None:
        """Accept a connection. If too many are waiting, close the one that has waited longest."""
        if self.nr_conns >= self.worker_connections - _SPARE_CONNECTIONS:
            self._close_oldest()
        super().accept(listener)

    def set_accept_enabled(self, enabled: bool) -> None:
        """Start or stop accepting. At the end, accept connections that have arrived, and refuse others.

        gunicorn itself would keep the port open until the last connection is closed, and reset new ones.
        """
        super().set_accept_enabled(enabled)
        for listener in () if self.alive else self.sockets:
            before = None
            while before != self.nr_conns:
                before = self.nr_conns
                self.accept(listener)
            listener.close()

    def enqueue_req(self, conn: TConn) -> None:
        """Hand a connection to a thread if the head of its request has arrived. Otherwise let it wait."""
        if self.cfg.is_ssl or self._has_head(conn):
            super().enqueue_req(conn)
            return
        conn.timeout = time.monotonic() + self.time_limit
        self.pending_conns.append(conn)
        self.poller.register(conn.sock, selectors.EVENT_READ, partial(self.on_pending_socket_readable, conn))

    def on_pending_socket_readable(self, conn: TConn, client: Any) -> None:
        """Continue reading. The connection keeps its place among the waiting ones, and thus its deadline."""
        if self._has_head(conn):
            super().on_pending_socket_readable(conn, client)

    def _has_head(self, conn: TConn) -> bool:
        """Receive the data that has arrived. Return whether the head is complete."""
        if conn.parser is None:
            conn.parser = RequestParser(self.cfg, PacedSocket(conn.sock, self.time_limit), conn.client)
            conn.data_ready = True
            conn.close = partial(self._close, conn)
        unreader = conn.parser.unreader
        head: bytes = unreader.take_buffered()
        unreader.unread(head)
        if _END_OF_HEAD in head or len(head) > MAX_HEAD:
            return True
        conn.sock.setblocking(False)
        try:
            received = conn.sock.recv(MAX_HEAD)
        except BlockingIOError:
            return False
        except OSError:
            return True  # the thread gets the same error, and closes the connection
        head += received
        unreader.take_buffered()
        unreader.unread(head)
        return not received or len(head) > MAX_HEAD or _END_OF_HEAD in head

    def _close_oldest(self) -> None:
        waiting = self.pending_conns or self.keepalived_conns
        if waiting:
            conn = waiting.popleft()
            with contextlib.suppress(OSError, KeyError, ValueError):
                self.poller.unregister(conn.sock)
            self.nr_conns -= 1
            conn.close()

    def _close(self, conn: TConn, graceful: bool = False) -> None:
        """Close a connection. If `graceful`, wait for the client to close its end, without blocking others.

        gunicorn itself would block the selector of the process for up to two seconds for each client that
        does not close its end.
        """
        try:
            if graceful:
                conn.sock.setblocking(False)
                conn.sock.shutdown(socket.SHUT_WR)
                now = time.monotonic()
                conn.timeout = now + _LINGER_SECONDS
                drain = partial(self._drain, conn, now + _LONGEST_LINGERING)
                self.poller.register(conn.sock, selectors.EVENT_READ, drain)
                self._lingering.append(conn)
                return
        except (OSError, KeyError, ValueError):
            pass  # the client has closed it already
        util.close(conn.sock)

    def _drain(self, conn: TConn, latest: float, client: socket.socket) -> None:
        """Discard data from the client. Close the connection when the client has closed its end."""
        try:
            if client.recv(65_536):
                conn.timeout = min(time.monotonic() + _LINGER_SECONDS, latest)
                return
        except BlockingIOError:
            return
        except OSError:
            pass
        self._lingering.remove(conn)
        self.poller.unregister(client)
        util.close(client)

    def murder_pending(self) -> None:
        """Close the connections whose time is up. This is called about once a second."""
        super().murder_pending()
        now = time.monotonic()
        surplus = len(self._lingering) - _MOST_LINGERING
        for place, conn in enumerate([*self._lingering]):
            if conn.timeout <= now or place < surplus:
                self._lingering.remove(conn)
                self.poller.unregister(conn.sock)
                util.close(conn.sock)

    def _cap_keepalive(self, deadline: float) -> None:
        """Limit the wait of connections once the process has to stop."""
        super()._cap_keepalive(deadline)
        for conn in self.pending_conns:
            conn.timeout = min(conn.timeout, deadline)

    def handle(self, conn: TConn) -> Any:
        """Handle the requests of a connection in a thread, as long as the next one follows immediately."""
        while True:
            kept = self._handle_one(conn)
            if kept is not True or not self._next_has_come(conn):
                return kept

    def _next_has_come(self, conn: TConn) -> bool:
        """Wait a moment for the next request of a client that sends consecutive requests.

        This saves the way back to the selector, and from there to another thread. Return False if no request
        follows. Data that has arrived is then in the connection's buffer.
        """
        unreader = conn.parser.unreader
        usual = self.alive and not conn.is_http2 and not self.cfg.is_ssl and not unreader.buf.getvalue()
        if not usual or len(self._staying) >= _MOST_STAYING:
            return False
        self._staying.add(conn)
        try:
            conn.sock.settimeout(_STAY_SECONDS)
            received = conn.sock.recv(MAX_HEAD)
        except OSError:
            return False
        finally:
            self._staying.discard(conn)
        unreader.unread(received)
        return _END_OF_HEAD in received

    def _handle_one(self, conn: TConn) -> Any:
        """Handle one request of a connection, and start its time."""
        if isinstance(connection := getattr(conn.parser and conn.parser.unreader, "sock", None), PacedSocket):
            connection.restart()
            if len(conn.parser.unreader.buf.getvalue().partition(_END_OF_HEAD)[0]) > MAX_HEAD:
                self.handle_error(None, conn.sock, conn.client, errors.LimitRequestHeaders("head too large"))
                return False
        return super().handle(conn)

    def handle_request(self, req: Any, conn: TConn) -> Any:
        """Call the application once the head of the request has arrived."""
        req.body.reader = reader = _BodyReader(req.body.reader)
        closes = req.should_close
        # Called for the Connection header, so that the client knows before it sends the next request.
        req.should_close = lambda: closes() or req.body.failed or reader.leaves_too_much()
        plain = conn.sock
        conn.sock = writer = PacedWriter(plain, self.time_limit)
        try:
            kept = super().handle_request(req, conn)
            writer.flush()
            return kept
        finally:
            conn.sock = plain
            reader.answered = True

    def handle_error(self, _req: Any, client: Any, _addr: Any, exc: BaseException) -> None:
        """Answer a request that cannot be read, in the form of all other errors."""
        request_id = uuid.uuid4().hex
        if is_client_error(exc):
            self.log.warning("Request %s cannot be read: %s", request_id, type(exc).__name__)
        else:
            self.log.error("Request %s failed in the web server.", request_id, exc_info=exc)
        with contextlib.suppress(OSError):
            util.write_nonblock(client, describe_refusal(exc, self.cfg, request_id))
