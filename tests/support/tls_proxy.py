"""A TLS proxy for a server without TLS, with a certificate that `trustme` issues."""

import socket
import ssl
import threading

import trustme

from support.proxy import Proxy, copy

#: The message with which a client of PostgreSQL requests TLS: its length and a number.
_POSTGRES_TLS = b"\x00\x00\x00\x08\x04\xd2\x16\x2f"


class TlsProxy(Proxy):
    """A proxy that decrypts what it forwards to the server."""

    def __init__(
        self, host: str, port: int, certificate: trustme.LeafCert, *, postgres: bool = False
    ) -> None:
        super().__init__(host, port)
        self._postgres = postgres
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        certificate.configure_cert(self._context)
        #: TLS connections that were made.
        self.connections = 0

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
            with inside, self._connect() as server:
                there = threading.Thread(target=copy, args=[inside, server], daemon=True)
                there.start()
                copy(server, inside)
                there.join()
