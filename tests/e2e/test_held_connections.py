"""Clients that send or read slowly hold no thread: behind nginx, four threads still answer other clients."""

import socket
from collections.abc import Iterator
from contextlib import ExitStack

import psutil
import pytest

from e2e.test_proxy import read_to_the_end
from migration_service.config import Settings
from migration_service_local.servers.ports import LOOPBACK
from support.servers import wait_until
from support.web_servers import is_answered, needs_nginx, proxied_web_server

pytestmark = [needs_nginx, pytest.mark.long]

THREADS = 4
#: More than the threads, and what an address may have under way.
CLIENTS = 200
HEAD = b"POST /v1/data-import/validate-account/ HTTP/1.1\r\nHost: x\r\n"


@pytest.fixture(scope="module")
def port(migrated: Settings) -> Iterator[int]:
    """A web server of one process with four threads, behind nginx that waits two seconds only."""
    with proxied_web_server(
        migrated,
        {"MIGRATION_SERVICE_CONSOLE": "on"},
        ("_timeout 20s;", "_timeout 2s;"),
        processes=1,
        threads=THREADS,
    ) as (port, _server):
        yield port


def _connect(port: int) -> socket.socket:
    return socket.create_connection((LOOPBACK, port), timeout=30)


@pytest.mark.parametrize(
    "beginning",
    [
        HEAD + b"X-A: ",
        b"GET /health/live HTTP/1.1\r\nHost: x\r\n\r\n" + HEAD,
        HEAD + b"Content-Length: 1000\r\n\r\n{",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n",
    ],
    ids=["head", "second head", "body", "chunks"],
)
def test_requests_that_stop_half_way_hold_no_threads_and_are_closed(port: int, beginning: bytes) -> None:
    with ExitStack() as stack:
        connections = [stack.enter_context(_connect(port)) for _ in range(CLIENTS)]
        for connection in connections:
            connection.sendall(beginning)
        for _ in range(5):
            assert is_answered(port)
        for connection in connections:
            read_to_the_end(connection)  # until its time is up


def test_connections_without_a_request_leave_room_for_others(port: int) -> None:
    with ExitStack() as stack:
        for _ in range(2_100):
            stack.enter_context(_connect(port)).sendall(HEAD)
        assert is_answered(port)


@pytest.mark.parametrize("path", [b"/v1/openapi.json", b"/console/assets/bootstrap.css"])
def test_readers_that_stall_hold_no_threads_and_lose_their_connections(port: int, path: bytes) -> None:
    request = b"GET %s HTTP/1.1\r\nHost: x\r\n\r\n" % path
    with ExitStack() as stack:
        connections = [stack.enter_context(socket.socket()) for _ in range(5 * THREADS)]
        for connection in connections:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
            connection.connect((LOOPBACK, port))
            connection.sendall(request * 100)  # and no answer is read
        assert is_answered(port, timeout=20)
        wait_until(lambda: not _has_connections(port), "the end of connections that nobody reads")
        for connection in connections:
            assert read_to_the_end(connection).count(b"HTTP/1.1 200 ") < 100


def _has_connections(port: int) -> bool:
    found = psutil.net_connections("tcp4")
    return any(it.laddr.port == port and it.status == psutil.CONN_ESTABLISHED for it in found if it.laddr)
