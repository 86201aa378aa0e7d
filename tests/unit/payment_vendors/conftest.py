"""Real vendors: the sandbox, localstripe, and servers whose answers the test chooses."""

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from typing import TypeAlias

import pytest

from migration_service.payment_vendors.connection import CallLimits
from support.vendor_servers import run_localstripe

Script: TypeAlias = Callable[[socket.socket, bytes], None]


@pytest.fixture(scope="session")
def limits() -> CallLimits:
    """Time limits that are short for tests, but long enough for a busy machine."""
    return CallLimits(connect_seconds=2, answer_seconds=2, total_seconds=6, pause_seconds=0.001)


@pytest.fixture(scope="session")
def impatient_limits() -> CallLimits:
    """Time limits for servers that never answer in time."""
    return CallLimits(connect_seconds=0.2, answer_seconds=0.2, total_seconds=0.6, pause_seconds=0.001)


@pytest.fixture(scope="session")
def localstripe_url() -> Iterator[str]:
    """localstripe, a Stripe server double, as its own process."""
    with run_localstripe() as url:
        yield url


@pytest.fixture
def start_server() -> Iterator[Callable[[Script], "RawServer"]]:
    """Start a server that hands each connection to a script, with the request's head already read."""
    with contextlib.ExitStack() as stack:

        def start(script: Script) -> RawServer:
            server = RawServer(script)
            stack.callback(server.close)
            return server

        yield start


class RawServer:
    """A TCP server on a free port of this machine. `heads` has the request heads that it has received."""

    def __init__(self, script: Script) -> None:
        self.heads: list[bytes] = []
        self._script = script
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self.url = f"http://127.0.0.1:{self.port}"
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._listener.close()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._converse, args=(connection,), daemon=True).start()

    def _converse(self, connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            connection.settimeout(30)
            while head := _read_head(connection):
                self.heads.append(head)
                self._script(connection, head)


def _read_head(connection: socket.socket) -> bytes:
    head = b""
    while b"\r\n\r\n" not in head:
        piece = connection.recv(65536)
        if not piece:
            return b""
        head += piece
    return head
