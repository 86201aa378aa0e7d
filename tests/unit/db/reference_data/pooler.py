"""A proxy that does to a connection to PostgreSQL what a pooler in transaction mode can do to it."""

import socket
import struct
import threading

from support.proxy import Proxy, copy

_NOTIFICATION = b"A"
_CANCEL_KEY = b"K"


class Pooler(Proxy):
    """A proxy that forwards what it is told to.

    The client must not request encryption (`sslmode=disable`).
    """

    def __init__(
        self, host: str, port: int, *, forwards_notifications: bool, forwards_cancel_key: bool
    ) -> None:
        super().__init__(host, port)
        self._forwards_notifications = forwards_notifications
        self._forwards_cancel_key = forwards_cancel_key

    def _serve(self, client: socket.socket) -> None:
        with client, self._connect() as server:
            there = threading.Thread(target=copy, args=[client, server], daemon=True)
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
