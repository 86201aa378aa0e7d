"""gunicorn's threaded worker with a limit on how slowly a client may send and read.

gunicorn waits for a request's bytes as long as it takes, so that a few hundred connections which send
nothing would keep every thread. Here a request has some seconds, and more for what it has sent already:
large bodies over slow lines get through, and who sends nothing does not.
"""

import socket
import struct
import time
from typing import Any

from gunicorn.http.errors import NoMoreData, ParseException
from gunicorn.http.parser import RequestParser
from gunicorn.workers.gthread import TConn, ThreadWorker
from werkzeug.exceptions import BadRequest, RequestTimeout

#: Seconds that a client has for sending a request, whatever its size.
PATIENCE = 20.0
#: Bytes for which it gets another second.
LEAST_RATE = 10_000
#: Seconds after which a client that takes nothing of its answer is cut off.
_STALLED_READER = 30


class ClientTooSlowError(NoMoreData):  # type: ignore[misc]  # gunicorn has no types
    """The request did not come in time."""


class PacedSocket:
    """A connection that stops receiving from a client which is too slow; everything else is the socket's."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self.restart()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._socket, name)

    def restart(self) -> None:
        """Another request begins."""
        self._deadline = time.monotonic() + PATIENCE

    def recv(self, size: int) -> bytes:
        """What the client sent. Raises ClientTooSlowError when its time is over."""
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
    """Reads a request's body, and says in HTTP's words what is wrong with it."""

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

    def handle(self, conn: TConn) -> Any:
        """One request of a connection, in a thread: its time starts."""
        if conn.parser is None and not self.cfg.is_ssl:
            conn.sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", _STALLED_READER, 0))
            conn.parser = RequestParser(self.cfg, PacedSocket(conn.sock), conn.client)
        elif isinstance(connection := getattr(conn.parser.unreader, "sock", None), PacedSocket):
            connection.restart()
        return super().handle(conn)

    def handle_request(self, req: Any, conn: TConn) -> Any:
        """The request's head is there: call the application."""
        req.body.reader = _BodyReader(req.body.reader)
        return super().handle_request(req, conn)
