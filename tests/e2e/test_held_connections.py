"""With incomplete requests and slow readers, a web server with four threads still answers other clients."""

import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack
from http.client import HTTPConnection

import psutil
import pytest

from migration_service.config import Settings
from migration_service_local.servers.ports import LOOPBACK, random_free_port
from support.servers import wait_until
from support.web_servers import is_answered, web_server

THREADS = 4
#: Seconds that a client has to send a request.
TIME_LIMIT = 3
HEAD = b"POST /v1/data-import/validate-account/ HTTP/1.1\r\nHost: x\r\n"


@pytest.fixture(scope="module")
def port(migrated: Settings) -> Iterator[int]:
    """A web server of one process with four threads."""
    port = random_free_port()
    variables = {
        "MIGRATION_SERVICE_CONSOLE": "on",
        "MIGRATION_SERVICE_REQUEST_SECONDS": str(TIME_LIMIT),
        "MIGRATION_SERVICE_LEAVE_SECONDS": "0",
    }
    with web_server(migrated, port, variables, processes=1, threads=THREADS):
        yield port


def _connect(port: int) -> socket.socket:
    return socket.create_connection((LOOPBACK, port), timeout=30)


def _read_answer(connection: socket.socket) -> bytes:
    """Read one answer of /health/live."""
    received = b""
    while not received.endswith(b"}\n"):
        received += connection.recv(65_536) or pytest.fail("the connection was closed")
    return received


def test_incomplete_request_heads_hold_no_threads(port: int) -> None:
    with ExitStack() as stack:
        for place in range(20 * THREADS):
            connection = stack.enter_context(_connect(port))
            connection.sendall(HEAD + b"X-A: " + b"b" * (place * 500))
        for _ in range(5):
            assert is_answered(port)
        assert connection.recv(1) == b""  # it was closed when its time was up


def test_incomplete_request_heads_on_kept_alive_connections_hold_no_threads(port: int) -> None:
    with ExitStack() as stack:
        for _ in range(3 * THREADS):
            connection = stack.enter_context(_connect(port))
            connection.sendall(b"GET /health/live HTTP/1.1\r\nHost: x\r\n\r\n")
            assert _read_answer(connection).startswith(b"HTTP/1.1 200 ")
            connection.sendall(HEAD)
        assert is_answered(port)


def test_a_request_head_in_pieces_is_read_and_pipelined_requests_are_answered(port: int) -> None:
    request = b"GET /health/live HTTP/1.1\r\nHost: x\r\n\r\n"
    with _connect(port) as connection:
        for byte in request:
            connection.sendall(bytes([byte]))
        assert _read_answer(connection).startswith(b"HTTP/1.1 200 ")
        connection.sendall(request + request[:9])
        assert _read_answer(connection).startswith(b"HTTP/1.1 200 ")
        connection.sendall(request[9:])
        assert _read_answer(connection).startswith(b"HTTP/1.1 200 ")


def test_connections_beyond_what_a_process_accepts_leave_room_for_others(port: int) -> None:
    with ExitStack() as stack:
        for _ in range(2_100):  # gunicorn.conf.py: 2,000
            stack.enter_context(_connect(port)).sendall(HEAD)
        assert is_answered(port)


@pytest.mark.parametrize("path", [b"/v1/openapi.json", b"/console/assets/bootstrap.css"])
def test_readers_that_stall_lose_their_threads(port: int, path: bytes) -> None:
    request = b"GET %s HTTP/1.1\r\nHost: x\r\n\r\n" % path
    with ExitStack() as stack:
        connections = [stack.enter_context(socket.socket()) for _ in range(THREADS)]
        for connection in connections:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
            connection.connect((LOOPBACK, port))
            connection.sendall(request * 200)  # and no answer is read
        wait_until(lambda: not _has_connections(port), "the end of connections that nobody reads")
        assert is_answered(port)
        for connection in connections:
            assert 0 < _read_to_the_end(connection).count(b"HTTP/1.1 200 ") < 200


@pytest.mark.parametrize("in_chunks", [False, True])
def test_a_refusal_before_a_large_body_was_read_says_that_the_connection_closes(
    port: int, in_chunks: bool
) -> None:
    body = b"x" * 5_000_000
    client = HTTPConnection(LOOPBACK, port, timeout=30)
    for _ in range(2):  # without the word of the server, http.client would use the connection again
        sent = iter([body]) if in_chunks else body
        client.request("POST", "/v1/data-import/validate-account/", sent, encode_chunked=in_chunks)
        answer = client.getresponse()
        answer.read()
        assert (answer.status, answer.headers["Connection"]) == (401, "close")


def test_a_refusal_reaches_a_client_that_goes_on_sending_for_long(port: int) -> None:
    with _connect(port) as connection:
        connection.sendall(HEAD + b"Content-Length: 9000000\r\n\r\n")
        for _ in range(9):
            connection.sendall(b"x" * 1_000_000)
            time.sleep(0.4)
        assert _read_to_the_end(connection).startswith(b"HTTP/1.1 401 ")


def test_clients_that_do_not_close_their_end_delay_nobody(port: int) -> None:
    with ExitStack() as stack:
        for _ in range(50):  # each would stop the server for two seconds
            connection = stack.enter_context(_connect(port))
            connection.sendall(b"GET /health/live HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            assert _read_answer(connection).startswith(b"HTTP/1.1 200 ")
        assert is_answered(port)


def _has_connections(port: int) -> bool:
    found = psutil.net_connections("tcp4")
    return any(it.laddr.port == port and it.status == psutil.CONN_ESTABLISHED for it in found if it.laddr)


def _read_to_the_end(connection: socket.socket) -> bytes:
    received = bytearray()
    try:
        while piece := connection.recv(1_000_000):
            received += piece
    except ConnectionResetError:
        pass
    return bytes(received)
