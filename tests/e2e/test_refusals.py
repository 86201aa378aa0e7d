"""Errors of the web server itself have the usual form. Idle connections need no thread."""

import json
import socket
from contextlib import ExitStack
from urllib.parse import urlsplit

import pytest

from drill.scene import Scene

HEAD = b"GET /health/live HTTP/1.1\r\nHost: x\r\n"


def _connect(scene: Scene) -> socket.socket:
    address = urlsplit(scene.address.url)
    return socket.create_connection((address.hostname, address.port), timeout=30)


def _ask(scene: Scene, request: bytes) -> tuple[int, dict[str, str], bytes]:
    with _connect(scene) as connection:
        connection.sendall(request)
        received = b""
        while piece := connection.recv(65_536):
            received += piece
    head, _, body = received.partition(b"\r\n\r\n")
    status, *lines = head.decode().split("\r\n")
    return int(status.split()[1]), dict(line.split(": ", 1) for line in lines), body


@pytest.mark.parametrize(
    ("request_", "status", "code"),
    [
        (b"GET /" + b"x" * 5_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n", 414, "uri_too_long"),
        (HEAD + b"X: " + b"x" * 9_000 + b"\r\n\r\n", 431, "headers_too_large"),
        (HEAD + b"Expect: everything\r\n\r\n", 417, "expectation_failed"),
        (HEAD + b"not a header\r\n\r\n", 400, "parse_error"),
        (b"nonsense\r\n\r\n", 400, "parse_error"),
    ],
)
def test_requests_that_the_web_server_refuses_get_the_usual_form_of_error(
    scene: Scene, request_: bytes, status: int, code: str
) -> None:
    answered, headers, body = _ask(scene, request_)
    error = json.loads(body)
    assert (answered, error["code"]) == (status, code)
    assert error["errors"] == [{"detail": error["detail"], "code": code, "attr": None}]
    assert headers["Content-Type"] == "application/json"
    assert len(headers["X-Request-ID"]) == 32


def test_idle_connections_need_no_thread(scene: Scene) -> None:
    with ExitStack() as end:
        # More connections than all web server processes have threads.
        for _ in range(700):
            connection = end.enter_context(_connect(scene))
            connection.sendall(HEAD + b"\r\n")
            assert connection.recv(65_536).startswith(b"HTTP/1.1 200 ")
        resting = end.enter_context(_connect(scene))
        resting.sendall(HEAD + b"\r\n")
        assert resting.recv(65_536).startswith(b"HTTP/1.1 200 ")
