"""A transport for requests with a read time-out for the whole response.

The read time-out of requests applies to each received piece. A server that sends a byte now and then, in the
headers or in the body, could block a thread for ever. Here it applies from the end of the request to the last
byte of the response.
"""

import http.client
import io
import math
import socket
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from requests.adapters import HTTPAdapter
from urllib3 import HTTPConnectionPool, HTTPSConnectionPool, PoolManager
from urllib3.connection import HTTPConnection, HTTPSConnection

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer


class TimedReader(io.RawIOBase):
    """A socket reader that applies the socket's current time-out to all reads together.

    It reads at most so many bytes: heads and interim answers can be without end, too.
    """

    def __init__(self, raw: io.RawIOBase, connected: socket.socket, most_bytes: float) -> None:
        super().__init__()
        self._left = most_bytes
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
        if self._left <= 0:
            raise http.client.HTTPException("the answer is too long")
        read = self._raw.readinto(buffer)
        self._left -= read or 0
        return read

    def close(self) -> None:
        self._raw.close()
        super().close()


class TimedResponse(http.client.HTTPResponse):
    """A response whose time-out, and whose limit of bytes, applies to all of it."""

    most_bytes: ClassVar[float] = math.inf

    def __init__(self, sock: socket.socket, *args: Any, **kwargs: Any) -> None:
        super().__init__(sock, *args, **kwargs)
        self.fp = io.BufferedReader(TimedReader(self.fp.detach(), sock, self.most_bytes))


class TimedHTTPConnection(HTTPConnection):
    """A connection whose read time-out applies to the whole response."""

    response_class = TimedResponse

    def putrequest(self, *args: Any, **kwargs: Any) -> None:
        """Begin a request. What the last response left of its time-out must not apply to it."""
        if self.sock is not None:
            self.sock.settimeout(self.timeout)
        super().putrequest(*args, **kwargs)


class TimedHTTPSConnection(TimedHTTPConnection, HTTPSConnection):
    """The same with TLS."""


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
