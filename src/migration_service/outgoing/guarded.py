"""HTTP requests to URLs that clients have chosen, which must not lead into the network of this service.

A name is resolved once for each connection. All its addresses are checked, and exactly these are connected
to, so a name server cannot give another address in between. The name is still the one of TLS: for SNI and the
certificate. No proxy is used, because it would resolve the name itself, and no redirect is followed.
"""

import logging
import socket
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass

import requests
from requests.utils import DEFAULT_CA_BUNDLE_PATH
from urllib3 import PoolManager, Timeout

from migration_service.outgoing import deadlines
from migration_service.outgoing.rules import AddressRules

# More connections than are kept open is what is wanted while there is much to send, and no warning.
logging.getLogger("urllib3.connectionpool").addFilter(lambda line: "pool is full" not in str(line.msg))

#: Bytes of an answer that are read beside its body.
_HEAD_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestLimits:
    """Limits of a request."""

    #: Seconds from connecting to the last byte of the answer, without the time of the name server.
    seconds: float = 10.0
    #: Seconds of these for connecting to all addresses, and again for each of TLS and the request.
    connect_seconds: float = 3.0
    #: Bytes of the body of the answer that are read.
    answer_bytes: int = 64 * 1024
    #: The number of hosts, and of connections to each, that are kept open.
    hosts: int = 64
    connections: int = 8


@dataclass(frozen=True, slots=True)
class Answer:
    """What a server answered."""

    status: int
    headers: Mapping[str, str]
    #: The start of the body, at most `RequestLimits.answer_bytes`.
    body: bytes


class GuardedClient:
    """Sends POST requests. Threads may share it. It keeps connections open between requests."""

    def __init__(self, rules: AddressRules, limits: RequestLimits | None = None) -> None:
        self._limits = limits or RequestLimits()
        self._pools = PoolManager(
            num_pools=self._limits.hosts,
            maxsize=self._limits.connections,
            ssl_context=ssl.create_default_context(cafile=trusted_certificates()),
            retries=False,
        )
        connections = {
            "http": _guard(deadlines.TimedHTTPConnection, rules, self._limits),
            "https": _guard(deadlines.TimedHTTPSConnection, rules, self._limits),
        }
        deadlines.use_pools(self._pools, connections)

    def post(self, url: str, body: bytes, headers: Mapping[str, str]) -> Answer:
        """Send a request and return its answer. Raise urllib3's HTTPError or OSError if there is none."""
        limits = self._limits
        response = self._pools.request(
            "POST",
            url,
            body=body,
            headers=headers,
            redirect=False,
            retries=False,
            preload_content=False,
            decode_content=False,
            timeout=Timeout(total=limits.seconds, connect=limits.connect_seconds),
        )
        try:
            start = response.read(limits.answer_bytes)
            if len(start) == limits.answer_bytes:  # the rest is not waited for
                response.close()
            return Answer(response.status, response.headers, start)
        except BaseException:
            response.close()
            raise
        finally:
            response.release_conn()

    def close(self) -> None:
        """Close the connections that are kept open."""
        self._pools.clear()


def trusted_certificates() -> str:
    """Return the file of trusted authorities that requests would use, which variables can replace."""
    with requests.Session() as session:
        found = session.merge_environment_settings("https://host", {}, None, None, None)["verify"]
    return found if isinstance(found, str) else DEFAULT_CA_BUNDLE_PATH


def _guard(base: type[deadlines.TimedHTTPConnection], rules: AddressRules, limits: RequestLimits) -> type:
    def connect(self: deadlines.TimedHTTPConnection) -> socket.socket:
        deadline = time.monotonic() + float(self.timeout or 0)
        failure: OSError = OSError("the host has no address")
        for address in rules.resolve(self.host, self.port):
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                raise TimeoutError("the connection was not established in time")
            try:
                connection = socket.create_connection((address, self.port), remaining)
            except OSError as error:
                failure = error
            else:
                # Otherwise the body waits for the receiver to acknowledge the headers, for 40 ms.
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                connection.settimeout(self.timeout)
                return connection
        raise failure

    response = type(
        "GuardedResponse", (deadlines.TimedResponse,), {"most_bytes": _HEAD_BYTES + limits.answer_bytes}
    )
    return type(f"Guarded{base.__name__}", (base,), {"_new_conn": connect, "response_class": response})
