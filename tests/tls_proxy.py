"""A TLS proxy for a server without TLS, with a certificate that `trustme` issues."""

import socket
import ssl
import threading
from types import TracebackType

import trustme

#: The message with which a client of PostgreSQL requests TLS: its length and a number.
_POSTGRES_TLS = b"\x00\x00\x00\x08\x04\xd2\x16\x2f"


class TlsProxy:
    """Listens on a free port of 127.0.0.1 with TLS, and forwards everything. Use it in a `with` statement."""

    def __init__(
        self, host: str, port: int, certificate: trustme.LeafCert, *, postgres: bool = False
    ) -> None:
        self._target = (host, port)
        self._postgres = postgres
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        certificate.configure_cert(self._context)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        #: TLS connections that were made.
        self.connections = 0

    def __enter__(self) -> "TlsProxy":
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # Otherwise a thread that waits in accept() would keep the socket.
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
        with client:
            if self._postgres:
                if client.recv(8) != _POSTGRES_TLS:
                    return
                client.sendall(b"S")
            try:
                inside = self._context.wrap_socket(client, server_side=True)
            except (ssl.SSLError, OSError):
                return
            self.connections += 1
            with inside, socket.create_connection(self._target) as server:
                there = threading.Thread(target=_copy, args=[inside, server], daemon=True)
                there.start()
                _copy(server, inside)
                there.join()


def _copy(source: socket.socket, target: socket.socket) -> None:
    try:
        while data := source.recv(65_536):
            target.sendall(data)
    except (OSError, ValueError):
        pass
    for end in (source, target):
        try:
            end.shutdown(socket.SHUT_RDWR)
        except OSError:
            continue
