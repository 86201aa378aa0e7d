"""A transport for requests with a read time-out for the whole response.

The read time-out of requests applies to each received piece. A server that sends a byte now and then, in the
headers or in the body, could block a thread for ever. Here it applies from the end of the request to the last
byte of the response.
"""

import http.client
import io
import socket
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from requests.adapters import HTTPAdapter
from urllib3 import HTTPConnectionPool, HTTPSConnectionPool, PoolManager
from urllib3.connection import HTTPConnection, HTTPSConnection

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer


class _TimedReader(io.RawIOBase):
    """A socket reader that applies the socket's current time-out to all reads together."""

    def __init__(self, raw: io.RawIOBase, connected: socket.socket) -> None:
        super().__init__()
        self._raw = raw
        self._socket = connected
        timeout = connected.gettimeout()
        self._deadline = None if timeout is None else time.monotonic() + timeout

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: "WriteableBuffer") -> int | None:
        if self._deadline is not None:
            remaining = self._deadline - time.monotonic()
            if remaining <= 0:
                raise TimeoutError("the answer was not complete in time")
            self._socket.settimeout(remaining)
        return self._raw.readinto(buffer)

    def close(self) -> None:
        self._raw.close()
        super().close()


class _TimedResponse(http.client.HTTPResponse):
    def __init__(self, sock: socket.socket, *args: Any, **kwargs: Any) -> None:
        super().__init__(sock, *args, **kwargs)
        self.fp = io.BufferedReader(_TimedReader(self.fp.detach(), sock))


class TimedHTTPConnection(HTTPConnection):
    """A connection whose read time-out applies to the whole response."""

    response_class = _TimedResponse


class TimedHTTPSConnection(HTTPSConnection):
    """The same with TLS."""

    response_class = _TimedResponse


_TIMED = {"http": TimedHTTPConnection, "https": TimedHTTPSConnection}


class TimedAdapter(HTTPAdapter):
    """An adapter for a requests.Session. `timeout=(connect, answer)` applies to the whole response."""

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        super().init_poolmanager(*args, **kwargs)
        use_pools(self.poolmanager, _TIMED)

    def proxy_manager_for(self, *args: Any, **kwargs: Any) -> Any:
        manager = super().proxy_manager_for(*args, **kwargs)
        use_pools(manager, _TIMED)
        return manager


def use_pools(manager: PoolManager, connections: Mapping[str, type]) -> None:
    """Let a pool manager make connections of these classes: one for `http` and one for `https`."""
    bases = {"http": HTTPConnectionPool, "https": HTTPSConnectionPool}
    manager.pool_classes_by_scheme = {
        scheme: type("_Pool", (base,), {"ConnectionCls": connections[scheme]})
        for scheme, base in bases.items()
    }
