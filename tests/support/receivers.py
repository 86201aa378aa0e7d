"""Receivers of webhooks: servers that answer, fail, hang, cut the connection, redirect, or are gone."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from email.message import Message
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from standardwebhooks import Webhook


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_: Any) -> None:
        """Say nothing: who sends may be killed meanwhile."""


class Receiver:
    """A server on this machine. `requests` has the headers and the body of each request."""

    def __init__(self, port: int = 0) -> None:
        self.requests: list[tuple[Message, bytes]] = []
        #: What it does: a status with its headers, "cut" or "hang".
        self.manner: tuple[int, dict[str, str]] | str = (204, {})
        self.let_go = threading.Event()
        self._server = _Server(("127.0.0.1", port), self._handler())
        serve = partial(self._server.serve_forever, poll_interval=0.02)
        self._thread = threading.Thread(target=serve, daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        port: int = self._server.server_address[1]
        return port

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/events"

    def answer(self, status: int, **headers: str) -> None:
        """Answer with this status from now on."""
        self.manner = (status, {name.replace("_", "-"): value for name, value in headers.items()})

    def ids(self) -> list[str]:
        """Return the ids of the received messages."""
        return [headers["webhook-id"] for headers, _ in self.requests]

    def verified(self, secret: str) -> list[Any]:
        """Return the received events. Fail if one does not have a signature with this secret."""
        hook = Webhook(secret)
        return [hook.verify(body, dict(headers.items())) for headers, body in self.requests]

    def close(self) -> None:
        self.let_go.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def _handler(receiver) -> type[BaseHTTPRequestHandler]:  # noqa: N805
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                size = int(self.headers["Content-Length"])
                body = self.rfile.read(size)
                if len(body) < size:  # the sender was killed meanwhile, so nothing was received
                    self.close_connection = True
                    return
                self.headers["x-path"] = self.path
                receiver.requests.append((self.headers, body))
                if receiver.manner == "hang":
                    receiver.let_go.wait()
                if isinstance(receiver.manner, str):
                    self.close_connection = True
                    return
                status, headers = receiver.manner
                answer = b"" if status == 204 else f"status {status}".encode()
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                if status != 204:
                    self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *_args: Any) -> None:
                """Write nothing."""

        return Handler


@contextmanager
def receiving(port: int = 0) -> Iterator[Receiver]:
    """Run a receiver, on any free port unless one is given."""
    receiver = Receiver(port)
    try:
        yield receiver
    finally:
        receiver.close()
