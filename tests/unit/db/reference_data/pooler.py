"""A proxy that does to a connection to PostgreSQL what a pooler in transaction mode can do to it."""

import socket
import struct
import threading
from types import TracebackType

_NOTIFICATION = b"A"
_CANCEL_KEY = b"K"


class Pooler:
    """Listens on a free port of 127.0.0.1, and forwards what it is told to. Use it in a `with` statement.

    The client must not request encryption (`sslmode=disable`).
    """

    def __init__(
        self, host: str, port: int, *, forwards_notifications: bool, forwards_cancel_key: bool
    ) -> None:
        self._target = (host, port)
        self._forwards_notifications = forwards_notifications
        self._forwards_cancel_key = forwards_cancel_key
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])

    def __enter__(self) -> "Pooler":
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=[client], daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client, socket.create_connection(self._target) as server:
            there = threading.Thread(target=_copy, args=[client, server], daemon=True)
            there.start()
            self._answer(server, client)

    def _answer(self, server: socket.socket, client: socket.socket) -> None:
        """Forward the messages of the server: a letter, the length of the rest, the rest."""
        with server.makefile("rb") as messages:
            while len(head := messages.read(5)) == 5:
                kind, length = head[:1], struct.unpack("!I", head[1:])[0]
                rest = messages.read(length - 4)
                if kind == _NOTIFICATION and not self._forwards_notifications:
                    continue
                if kind == _CANCEL_KEY and not self._forwards_cancel_key:
                    rest = struct.pack("!I", struct.unpack("!I", rest[:4])[0] + 1) + rest[4:]
                try:
                    client.sendall(head + rest)
                except OSError:
                    return


def _copy(source: socket.socket, target: socket.socket) -> None:
    try:
        while data := source.recv(65_536):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        pass
