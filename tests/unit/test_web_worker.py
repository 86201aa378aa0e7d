"""The sockets of the web server's worker, and clients that read slowly."""

import selectors
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

import pytest
from gunicorn.config import Config
from gunicorn.workers.gthread import TConn

from migration_service.web_worker import (
    ClientTooSlowError,
    PacedSocket,
    PacedWorker,
    PacedWriter,
    ServerLog,
)

_SETTINGS = {
    "DATABASE_URL": "postgresql://nobody:none@127.0.0.1:1/none",
    "REDIS_URL": "redis://127.0.0.1:1/0",
    "MIGRATION_SERVICE_SECRET_KEY": "x" * 64,
}


def test_a_client_that_reads_receives_everything() -> None:
    ours, theirs = socket.socketpair()
    data, received = b"x" * 5_000_000, bytearray()

    def read() -> None:
        while piece := theirs.recv(1_000_000):
            received.extend(piece)

    reader = threading.Thread(target=read)
    with ours, theirs:
        reader.start()
        writer = PacedWriter(ours, 5.0)
        for part in (b"head", data, data):
            writer.sendall(part)
        ours.shutdown(socket.SHUT_WR)
        reader.join()
    assert bytes(received) == b"head" + data + data


def test_a_client_that_does_not_read_is_disconnected_however_much_the_system_buffers() -> None:
    ours, theirs = socket.socketpair()
    writer = PacedWriter(ours, 0.2)
    writer.sendall(b"head")
    with ours, theirs, pytest.raises(BrokenPipeError):
        writer.sendall(b"x" * 50_000_000)


def test_a_body_that_has_arrived_is_read_at_once_and_one_that_has_not_within_its_time() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(b"here")
        paced = PacedSocket(ours, 0.05)
        assert paced.recv(100) == b"here"
        with pytest.raises(ClientTooSlowError):
            paced.recv(100)
        assert ours.gettimeout() is None
        theirs.close()
        paced.restart()
        assert paced.recv(100) == b""


def test_the_time_of_a_client_begins_when_the_service_receives() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        paced = PacedSocket(ours, 0.05)
        for body in (b"one", b"another"):
            paced.restart()
            theirs.sendall(body)
            time.sleep(0.06)  # as if it waited for a turn
            assert paced.recv(100) == body
        time.sleep(0.06)
        with pytest.raises(ClientTooSlowError):
            paced.recv(100)


@pytest.fixture
def worker(monkeypatch: pytest.MonkeyPatch) -> Iterator[PacedWorker]:
    for name, value in _SETTINGS.items():
        monkeypatch.setenv(name, value)
    config = Config()
    config.set("keepalive", 5)
    worker = PacedWorker(0, 0, [], None, 30, config, ServerLog(config))
    worker.wsgi = _answer
    yield worker
    worker.tmp.close()


def _answer(environ: dict[str, Any], start_response: Any) -> list[bytes]:
    start_response("200 OK", [("Content-Length", "1")])
    return [environ["PATH_INFO"][-1:].encode()]


@contextmanager
def connected(worker: PacedWorker) -> "Iterator[tuple[TConn, socket.socket]]":
    """A connection, as the worker has it when a thread takes it, and the client's end."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        conn = TConn(worker.cfg, ours, ("127.0.0.1", 1), ("127.0.0.1", 2))
        theirs.settimeout(5)
        yield conn, theirs


def _request(path: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: here\r\n\r\n".encode()


def _take(worker: PacedWorker, conn: TConn) -> None:
    """Do what the worker does when the head of a request has arrived."""
    assert worker._has_head(conn)


def test_a_thread_stays_with_a_client_that_sends_one_request_after_the_other(worker: PacedWorker) -> None:
    answers = []
    with connected(worker) as (conn, client):
        client.sendall(_request("/1"))
        _take(worker, conn)

        def ask() -> None:
            answers.append(client.recv(1_000)[-1:])
            for path in ("/2", "/3"):
                client.sendall(_request(path))
                answers.append(client.recv(1_000)[-1:])
            client.shutdown(socket.SHUT_WR)

        asker = threading.Thread(target=ask)
        asker.start()
        with patch("migration_service.web_worker._STAY_SECONDS", 5.0):
            worker.handle(conn)
        asker.join()
    assert answers == [b"1", b"2", b"3"]


def test_a_connection_without_another_request_is_given_back(worker: PacedWorker) -> None:
    with connected(worker) as (conn, client):
        client.sendall(_request("/1"))
        _take(worker, conn)
        assert worker.handle(conn) is True
        assert client.recv(1_000).endswith(b"1")
        assert not worker._staying


def test_half_a_head_is_given_back_with_the_connection(worker: PacedWorker) -> None:
    """It waits in the selector, which has a time limit for it, and not in a thread."""
    with connected(worker) as (conn, client):
        client.sendall(_request("/1"))
        _take(worker, conn)
        whole = _request("/2")
        # What follows at once: the thread reads it when it stays.
        threading.Timer(0, lambda: client.sendall(whole[:9])).start()
        with patch("migration_service.web_worker._STAY_SECONDS", 5.0):
            assert worker.handle(conn) is True
        assert conn.parser.unreader.buf.getvalue() == whole[:9]
        client.sendall(whole[9:])
        _take(worker, conn)
        assert worker.handle(conn) is True
        assert client.recv(1_000).endswith(b"2")


def test_beyond_its_connections_a_process_closes_the_one_that_has_waited_longest(worker: PacedWorker) -> None:
    worker.worker_connections = 103  # of which 100 are spare
    worker.poller = selectors.DefaultSelector()
    address = ("127.0.0.1", 0)
    with socket.create_server(address) as listener, worker.poller, ExitStack() as stack:
        clients = []
        for _ in range(4):
            client = stack.enter_context(socket.create_connection(listener.getsockname()))
            client.settimeout(0)
            clients.append(client)
            worker.accept(listener)
        assert clients[0].recv(1) == b""
        for client in clients[1:]:
            with pytest.raises(BlockingIOError):
                client.recv(1)
        for conn in worker.pending_conns:
            conn.close()
