"""The sockets of the web server's worker, and clients that read slowly."""

import socket
import threading

import pytest

from migration_service.web_worker import PacedWriter


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
