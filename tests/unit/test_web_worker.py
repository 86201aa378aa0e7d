"""The sockets of the web server's worker, and clients that read slowly."""

import socket
import threading

import pytest
from gunicorn.config import Config

from migration_service.web_worker import PacedWriter, ServerLog


def test_a_client_that_reads_receives_everything() -> None:
    ours, theirs = socket.socketpair()
    data, received = b"x" * 5_000_000, bytearray()

    def read() -> None:
        while piece := theirs.recv(1_000_000):
            received.extend(piece)

    reader = threading.Thread(target=read)
    with ours, theirs:
        reader.start()
        PacedWriter(ours, 5.0).sendall(data)
        ours.shutdown(socket.SHUT_WR)
        reader.join()
    assert bytes(received) == data


def test_a_client_that_does_not_read_is_disconnected_however_much_the_system_buffers() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs, pytest.raises(BrokenPipeError):
        PacedWriter(ours, 0.2).sendall(b"x" * 50_000_000)


def test_gunicorn_does_not_put_its_own_line_of_a_request_together() -> None:
    config = Config()
    config.set("accesslog", "-")
    log = ServerLog(config)
    assert log.access_log_enabled  # so it is with gunicorn.conf.py, which says how gunicorn logs
    log.access(None, None, None, None)  # which has nothing that a line could be made of
