"""A proxy between a client and a server. Each of its kinds does something else to what it forwards."""

import socket
import threading
from contextlib import suppress
from typing import Self


class Proxy:
    """Listens on a free port of 127.0.0.1. Use it in a `with` statement."""

    def __init__(self, host: str, port: int) -> None:
        self._target = (host, port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        #: The number of connections so far.
        self.accepted = 0

    def forward_to(self, port: int) -> None:
        """Lead new connections to another server of the same host."""
        self._target = (self._target[0], port)

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        # Otherwise a thread that waits in accept() would keep the socket.
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self.accepted += 1
            threading.Thread(target=self._serve_until_end, args=[client], daemon=True).start()

    def _serve_until_end(self, client: socket.socket) -> None:
        with client, suppress(OSError):  # the server, or the client, is gone
            self._serve(client)

    def _serve(self, client: socket.socket) -> None:
        """Forward what comes from `client`, and the answers, until the connection ends."""
        raise NotImplementedError

    def _connect(self) -> socket.socket:
        return socket.create_connection(self._target)


def copy(source: socket.socket, target: socket.socket) -> None:
    """Forward bytes until one of the two is closed. Then close both for reading and writing."""
    try:
        while data := source.recv(65_536):
            target.sendall(data)
    except (OSError, ValueError):
        pass
    for end in (source, target):
        _shut(end)


class CuttingProxy(Proxy):
    """A proxy that cuts a connection of PostgreSQL when a client sends what it is told to look for, once."""

    _trigger = b""
    _forwards = _waits = False

    def cut_at(self, trigger: bytes, *, forwards: bool, waits: bool = True) -> None:
        """Cut the next connection whose client sends `trigger`.

        With `forwards`, the server gets it and only its answer is lost. The proxy cuts the client off when
        the server has answered, or before it if the proxy does not wait.
        """
        self._trigger, self._forwards, self._waits = trigger, forwards, waits

    def _serve(self, client: socket.socket) -> None:
        is_cut = threading.Event()

        def send_back() -> None:
            with suppress(OSError):  # the client is gone
                while (data := _receive(server)) and not is_cut.is_set():
                    client.sendall(data)
            _shut(client)

        with client, self._connect() as server:
            answering = threading.Thread(target=send_back, daemon=True)
            answering.start()
            while data := _receive(client):
                if self._trigger and self._trigger in data:
                    self._trigger = b""
                    is_cut.set()
                    if not self._forwards:
                        server.shutdown(socket.SHUT_WR)  # whereupon its session ends
                        break
                    if not self._waits:
                        _shut(client)
                server.sendall(data)
            if is_cut.is_set():
                answering.join()
            _shut(client)
            _shut(server)
            answering.join()


def _receive(source: socket.socket) -> bytes:
    try:
        return source.recv(65_536)
    except OSError:
        return b""


def _shut(end: socket.socket) -> None:
    with suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
