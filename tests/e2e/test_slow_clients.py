"""Clients that send slowly, endlessly or invalid data are answered, and use up neither threads nor memory."""

import gzip
import json
import select
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

import pytest

from drill.scene import SUPPLIER, Scene

HEALTH = b"GET /health/live HTTP/1.1\r\nHost: x\r\n"
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
    ("request_", "status", "code"),
    [
        (b"GET /" + b"x" * 5_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n", 414, "uri_too_long"),
        (HEALTH + b"X: " + b"x" * 9_000 + b"\r\n\r\n", 431, "headers_too_large"),
        (HEALTH + b"Expect: everything\r\n\r\n", 417, "expectation_failed"),
        (HEALTH + b"not a header\r\n\r\n", 400, "parse_error"),
        (b"\x16\x03\x01\x02\r\nHost: x\r\n\r\n", 400, "parse_error"),
        (b"G\x00T / HTTP/9.9\r\nHost: x\r\n\r\n", 400, "parse_error"),
    ],
)
def test_requests_that_the_web_server_refuses_get_the_usual_form_of_error(
    scene: Scene, request_: bytes, status: int, code: str
) -> None:
    with connected(scene) as connection:
        connection.sendall(request_)
        received, _, body = read_to_the_end(connection).partition(b"\r\n\r\n")
    error = json.loads(body)
    assert (int(received.split()[1]), error["code"]) == (status, code)
    assert error["errors"] == [{"detail": error["detail"], "code": code, "attr": None}]
    assert b"Content-Type: application/json" in received
    assert b"X-Request-ID: " in received
    assert b".py" not in body


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
