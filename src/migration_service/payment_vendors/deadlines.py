"""A transport for requests with a read time-out for the whole response.

The read time-out of requests applies to each received piece. A vendor that sends a byte now and then, in the
headers or in the body, could block a thread for ever. Here it applies from the end of the request to the last
byte of the response.
"""

import http.client
import io
import socket
import time
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


class _TimedHTTPConnection(HTTPConnection):
    response_class = _TimedResponse


class _TimedHTTPSConnection(HTTPSConnection):
    response_class = _TimedResponse


class _TimedHTTPPool(HTTPConnectionPool):
    ConnectionCls = _TimedHTTPConnection


class _TimedHTTPSPool(HTTPSConnectionPool):
    ConnectionCls = _TimedHTTPSConnection


class TimedAdapter(HTTPAdapter):
    """An adapter for a requests.Session. `timeout=(connect, answer)` applies to the whole response."""

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        super().init_poolmanager(*args, **kwargs)
        _use_timed_pools(self.poolmanager)

    def proxy_manager_for(self, *args: Any, **kwargs: Any) -> Any:
        manager = super().proxy_manager_for(*args, **kwargs)
        _use_timed_pools(manager)
        return manager


def _use_timed_pools(manager: PoolManager) -> None:
    manager.pool_classes_by_scheme = {"http": _TimedHTTPPool, "https": _TimedHTTPSPool}
