"""Clients that send slowly, nothing, endlessly or invalid data do not use up threads or memory."""

import gzip
import select
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from urllib.parse import urlsplit

import pytest
import requests

from drill.scene import SUPPLIER, Scene

VALIDATE = "POST /v1/data-import/validate-account/ HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"


@contextmanager
def connected(scene: Scene) -> Iterator[socket.socket]:
    address = urlsplit(scene.address.url)
    with socket.create_connection((address.hostname, address.port), timeout=30) as connection:
        yield connection


def read_to_the_end(connection: socket.socket) -> bytes:
    """Return everything that the server sends until it closes the connection."""
    received = b""
    try:
        while piece := connection.recv(65_536):
            received += piece
    except ConnectionResetError:
        pass  # the server closed the connection before it had read everything
    return received


def send_until_answered(connection: socket.socket, piece: bytes, *, pause: float = 0.0) -> int:
    """Send `piece` repeatedly until the server answers. Return the number of bytes that it accepted."""
    deadline = time.monotonic() + 90
    taken, rest = 0, memoryview(b"")
    while not select.select([connection], [], [], pause)[0]:
        assert time.monotonic() < deadline, f"no answer within 90 s, and {taken} bytes were taken"
        if select.select([], [connection], [], 0.1)[1]:
            rest = rest or memoryview(piece)
            sent = connection.send(rest)
            taken, rest = taken + sent, rest[sent:]
    return taken


def head(scene: Scene, *headers: str, token: str | None = None) -> bytes:
    token = token or scene.token
    lines = "".join(f"{header}\r\n" for header in (f"Authorization: Token {token}", *headers))
    return f"{VALIDATE}{lines}\r\n".encode()


def test_a_connection_with_an_incomplete_request_head_is_closed_in_time(scene: Scene) -> None:
    with connected(scene) as connection:
        connection.sendall(VALIDATE.encode())
        assert read_to_the_end(connection) == b""


def test_a_body_that_stops_half_way_is_answered_408(scene: Scene) -> None:
    with connected(scene) as connection:
        connection.sendall(head(scene, "Content-Length: 1000") + b'{"a":')
        answer = read_to_the_end(connection)
    assert answer.startswith(b"HTTP/1.1 408 ")
    assert b'"request_timeout"' in answer


@pytest.mark.parametrize(
    ("header", "body"),
    [("Content-Length: 1000", b'{"a":'), ("Transfer-Encoding: chunked", b"1\r\n{\r\nzz\r\n")],
)
def test_a_body_that_is_refused_unread_and_never_ends_is_answered_once(
    scene: Scene, header: str, body: bytes
) -> None:
    with connected(scene) as connection:
        connection.sendall(head(scene, header, token="unknown") + body)
        answer = read_to_the_end(connection)
    assert answer.startswith(b"HTTP/1.1 401 ")
    assert answer.count(b"HTTP/1.1 ") == 1


def test_a_body_that_is_sent_byte_by_byte_is_answered_408(scene: Scene) -> None:
    with connected(scene) as connection:
        connection.sendall(head(scene, "Content-Length: 1000"))
        send_until_answered(connection, b" ", pause=0.2)
        answer = read_to_the_end(connection)
    assert answer.startswith(b"HTTP/1.1 408 ")
    assert b'"request_timeout"' in answer


def test_a_large_body_that_is_sent_steadily_is_read(scene: Scene) -> None:
    body = b" " * 60_000 + b"{}"
    with connected(scene) as connection:
        connection.sendall(head(scene, f"Content-Length: {len(body)}", "Connection: close"))
        for start in range(0, len(body), 6_000):
            connection.sendall(body[start : start + 6_000])
            time.sleep(0.4)
        assert read_to_the_end(connection).startswith(b"HTTP/1.1 400 ")


def test_a_body_without_end_is_answered_413(scene: Scene) -> None:
    with connected(scene) as connection:
        connection.sendall(head(scene, "Transfer-Encoding: chunked"))
        taken = send_until_answered(connection, b"100000\r\n" + b" " * 0x100000 + b"\r\n")
        answer = read_to_the_end(connection)
    assert answer.startswith(b"HTTP/1.1 413 ")
    assert taken < 64_000_000


def test_chunks_that_are_not_well_formed_are_answered_400(scene: Scene) -> None:
    with connected(scene) as connection:
        connection.sendall(head(scene, "Transfer-Encoding: chunked") + b"zz\r\nnot a size\r\n")
        answer = read_to_the_end(connection)
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b'"parse_error"' in answer


@pytest.mark.parametrize(
    "request_line",
    [
        b"GET /%00/%2e%2e/%zz HTTP/1.1",
        b"GET " + b"/a" * 5_000 + b" HTTP/1.1",
        b"\x16\x03\x01\x02",
        b"G\x00T / HTTP/9.9",
    ],
)
def test_an_invalid_request_is_answered_without_internal_details(scene: Scene, request_line: bytes) -> None:
    with connected(scene) as connection:
        connection.sendall(request_line + b"\r\nHost: x\r\nConnection: close\r\n\r\n")
        answer = read_to_the_end(connection)
    assert b" 5" not in answer.partition(b"\r\n")[0]
    assert b"Traceback" not in answer
    assert b".py" not in answer


def test_hundreds_of_silent_connections_do_not_block_other_clients(scene: Scene) -> None:
    with ExitStack() as stack:
        for _ in range(800):  # more connections than the server has threads
            stack.enter_context(connected(scene)).sendall(VALIDATE.encode())
        assert scene.send("GET", f"pending-account-import-processes/{SUPPLIER}/").status_code == 200


def test_a_gzip_bomb_is_read_piece_by_piece(scene: Scene) -> None:
    web = scene.main_process("web").children()
    before = sum(process.memory_info().rss for process in web)
    bomb = gzip.compress(b" " * 300_000_000, 6)
    answer = scene.send(
        "POST",
        f"batches/?import_supplier={SUPPLIER}&mode=validate",
        data=bomb,
        headers={"Content-Type": "application/gzip"},
    )
    assert answer.status_code < 500
    assert sum(process.memory_info().rss for process in web) - before < 60_000_000


def test_a_compressed_body_that_becomes_too_large_is_refused(scene: Scene) -> None:
    answer: requests.Response = scene.send(
        "POST",
        "validate-account/",
        data=gzip.compress(b" " * 10_000_000),
        headers={"Content-Type": "application/json", "Content-Encoding": "gzip"},
    )
    assert (answer.status_code, answer.json()["code"]) == (413, "request_too_large")
