"""How requests travel: connections, certificates, proxies, uploads, streams, interruptions, forks."""

import asyncio
import os
import signal
import ssl
import threading
from collections.abc import Callable, Iterator
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import trustme

from migration_service_client import AsyncClient, Client, ServiceUnreachable, conversations
from migration_service_client.requests import Lines, Request
from migration_service_client.uploads import Upload

_BOOK = b"".join(b'{"line": %d}\n' % number for number in range(60_000))


class Handler(BaseHTTPRequestHandler):
    """Answers with the next manner of its server, or with the number of the connection."""

    protocol_version = "HTTP/1.1"
    server: "Server"

    def setup(self) -> None:
        super().setup()
        self.server.connections += 1
        self.number = self.server.connections

    def do_GET(self) -> None:
        length = int(self.headers.get("Content-Length", 0))
        manner = self.server.manners.pop(0) if self.server.manners else Handler.respond
        self.server.received.append((self.path, self.headers, b""))
        if manner is not Handler.cut:
            self.server.received[-1] = (self.path, self.headers, self.rfile.read(length))
        manner(self)

    do_POST = do_CONNECT = do_GET  # noqa: N815

    def respond(self) -> None:
        self.send(200, b'{"connection": %d}' % self.number)

    def respond_and_leave(self) -> None:
        self.respond()
        self.close_connection = True

    def cut(self) -> None:
        """Read only the beginning of the body, and answer nothing."""
        self.rfile.read(1000)
        self.close_connection = True

    def hang(self) -> None:
        self.server.hangs.set()
        self.server.goes_on.wait(30)
        self.close_connection = True

    def refuse(self) -> None:
        self.send(407, b"")

    def break_off(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "1000")
        self.end_headers()
        self.wfile.write(b'{"line": 1}\n')
        self.close_connection = True

    def send(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Write nothing."""


class Server(ThreadingHTTPServer):
    """A server on this machine that can be told what to do next."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.connections = 0
        self.received: list[tuple[str, Message, bytes]] = []
        self.manners: list[Callable[[Handler], None]] = []
        self.hangs, self.goes_on = threading.Event(), threading.Event()
        self.scheme = "http"

    @property
    def url(self) -> str:
        return f"{self.scheme}://localhost:{self.server_address[1]}"

    def handle_error(self, *_: Any) -> None:
        """Write nothing."""


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    for name in [name for name in os.environ if name.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)
    with Server() as server:
        threading.Thread(target=server.serve_forever, args=(0.02,)).start()
        yield server
        server.goes_on.set()
        server.shutdown()


@pytest.fixture
def authority(server: Server) -> trustme.CA:
    """The authority of the server's certificate."""
    authority, context = trustme.CA(), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(context)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    server.scheme = "https"
    return authority


def ask(method: str = "GET", **more: Any) -> Request[dict[str, Any]]:
    return Request("ask", method, "/ask", dict[str, Any], authorized=False, **more)


def client_of(server: Server, **options: Any) -> Client:
    return Client(server.url, "the-key", **{"patience": 0.0} | options)


def test_threads_share_connections_and_there_are_no_more_than_allowed(server: Server) -> None:
    with client_of(server, connections=2) as client:
        threads = [threading.Thread(target=client.send, args=(ask(),)) for _ in range(12)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert 1 <= server.connections <= 2
        assert len(server.received) == 12


def test_a_connection_that_was_closed_while_idle_is_replaced(server: Server) -> None:
    server.manners = [Handler.respond_and_leave]
    with client_of(server) as client:
        assert client.send(ask("POST", body=b"{}")) == {"connection": 1}
        assert client.send(ask("POST", body=b"{}")) == {"connection": 2}


def test_a_post_without_a_body_has_a_length_and_no_type(server: Server) -> None:
    with client_of(server) as client:
        client.send(ask("POST"))
    [(_, headers, _)] = server.received
    assert (headers["Content-Length"], headers["Content-Type"]) == ("0", None)
    assert headers["User-Agent"].startswith("migration-service-client/")


@pytest.mark.parametrize("is_async", [False, True], ids=["threads", "asyncio"])
def test_an_upload_that_broke_is_sent_again_from_its_beginning(
    server: Server, is_async: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.manners = [Handler.cut]
    seen: list[int] = []
    request = ask("POST", body=Upload(iter([_BOOK]), lambda sent, _: seen.append(sent)))

    async def send() -> None:
        async with AsyncClient(server.url, "the-key") as client:
            await client.send(request)

    monkeypatch.setattr(conversations, "_LONGEST_PAUSE", 0.0)
    if is_async:
        asyncio.run(send())
    else:
        with client_of(server, patience=2) as client:
            client.send(request)
    _, headers, body = server.received[-1]
    assert (body, headers["Content-Length"]) == (_BOOK, str(len(_BOOK)))
    assert headers["Transfer-Encoding"] is None
    assert seen[-1] == len(_BOOK)
    assert seen.count(seen[0]) == 2


def test_an_error_of_the_progress_ends_the_upload(server: Server) -> None:
    def progress(sent: int, size: int | None) -> None:
        raise LookupError("the bar is gone")

    with client_of(server, patience=60) as client, pytest.raises(LookupError, match="the bar is gone"):
        client.send(ask("POST", body=Upload(iter([_BOOK]), progress)))


def test_certificates_are_verified_with_those_of_a_file(
    server: Server, authority: trustme.CA, tmp_path: Path
) -> None:
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    with client_of(server, ca_file=tmp_path / "ca.pem") as client:
        assert client.send(ask()) == {"connection": 1}
    for options in ({}, {"ca_file": "no-such-file.pem"}):
        # Another try would not help: none of the patience is used.
        with (
            client_of(server, patience=60, **options) as client,
            pytest.raises(ServiceUnreachable, match="after 1 try:"),
        ):
            client.send(ask())


def test_the_proxy_is_the_given_one_or_that_of_the_environment(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    behind = "http://service.invalid"
    with Client(behind, "the-key", proxy=server.url) as client:
        client.send(ask())
    monkeypatch.setenv("http_proxy", server.url)
    with Client(behind, "the-key") as client:
        client.send(ask())
    assert [path for path, _, _ in server.received] == [f"{behind}/ask"] * 2
    monkeypatch.setenv("no_proxy", "localhost")
    with client_of(server) as client:
        client.send(ask())
    assert server.received[-1][0] == "/ask"
    monkeypatch.setenv("no_proxy", "service.invalid")
    with Client(behind, "the-key", proxy=server.url, patience=0) as client:
        client.send(ask())
    assert server.received[-1][0] == f"{behind}/ask", "the given one is used for every host"


def test_a_proxy_that_wants_a_password_is_not_asked_again(server: Server) -> None:
    server.manners = [Handler.refuse]
    with (
        Client("https://service.invalid", "the-key", proxy=server.url) as client,
        pytest.raises(ServiceUnreachable, match=r"after 1 try: .*407"),
    ):
        client.send(ask())


def lines() -> Lines[bytes]:
    return Lines("lines", "GET", "/lines", bytes, authorized=False, accept="application/x-ndjson")


def test_a_stream_that_breaks_off_is_an_error(server: Server) -> None:
    async def read() -> list[bytes]:
        async with AsyncClient(server.url, "the-key") as client:
            return [line async for line in client.iterate(lines())]

    server.manners = [Handler.break_off] * 2
    with client_of(server) as client:
        found = client.iterate(lines())
        assert next(found) == b'{"line": 1}'
        with pytest.raises(ServiceUnreachable, match="lines broke off"):
            next(found)
    with pytest.raises(ServiceUnreachable, match="lines broke off"):
        asyncio.run(read())


def test_ctrl_c_ends_a_request(server: Server) -> None:
    def interrupt() -> None:
        server.hangs.wait(30)
        os.kill(os.getpid(), signal.SIGINT)

    # What a shell starts in the background ignores SIGINT, and so do the tests then.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        server.manners = [Handler.hang]
        threading.Thread(target=interrupt).start()
        with client_of(server) as client, pytest.raises(KeyboardInterrupt):
            client.send(ask())
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_cancelled_task_does_not_wait_for_its_answer(server: Server) -> None:
    async def cancel() -> Any:
        async with AsyncClient(server.url, "the-key", connections=1) as client:
            task = asyncio.create_task(client.send(ask()))
            await asyncio.to_thread(server.hangs.wait, 30)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            return await client.send(ask())

    server.manners = [Handler.hang]
    assert asyncio.run(cancel()) == {"connection": 2}


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_process_has_connections_of_its_own(server: Server) -> None:
    with client_of(server) as client:
        assert client.send(ask()) == {"connection": 1}
        child = os.fork()
        if child == 0:
            signal.alarm(20)
            os._exit(client.send(ask())["connection"])
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 2
        assert client.send(ask()) == {"connection": 1}


def test_a_header_cannot_bring_another(server: Server) -> None:
    with pytest.raises(ValueError, match="Idempotency-Key"):
        ask(headers={"Idempotency-Key": "1\r\nX-Other: 2"})
