"""One request without the client, for what the doctor wants to see of it: the proxy, TLS and the clock."""

import http.client
import json
import ssl
import time
import urllib.request
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlsplit

_TIMEOUT = 10.0
#: Any path of the interface. Without a token the service answers 401, with a body of its own.
_PATH = "/v1/data-import/api-key/"


@dataclass(frozen=True, slots=True)
class Seen:
    """What a request showed."""

    #: The seconds by which the clock of this machine is ahead, or None if the answer has no date.
    clock_ahead: float | None
    #: Whether the answer is one of the service.
    is_service: bool
    #: The version of TLS, and when the certificate expires. None without TLS.
    tls: str | None
    certificate_expires: datetime | None


def proxy_of(url: str) -> str | None:
    """Return the address of the proxy that the environment has for this address, without its password."""
    parts = urlsplit(url)
    if urllib.request.proxy_bypass(parts.hostname or ""):
        return None
    proxy = urllib.request.getproxies().get(parts.scheme)
    if not proxy:
        return None
    found = urlsplit(proxy if "//" in proxy else f"http://{proxy}")
    return f"{found.scheme}://{found.hostname}:{found.port or 80}"


def probe(url: str) -> Seen:
    """Send one request, and return what it showed. Raise OSError or HTTPException if that is not possible."""
    connection = _connect(url)
    try:
        begun = time.time()
        connection.request("GET", urlsplit(url).path.rstrip("/") + _PATH)
        tls = connection.sock if isinstance(connection.sock, ssl.SSLSocket) else None
        version, certificate = (tls.version(), tls.getpeercert()) if tls else (None, None)
        answer = connection.getresponse()
        body = answer.read(100_000)
        now = (begun + time.time()) / 2
    finally:
        connection.close()
    return Seen(_ahead(answer.getheader("Date"), now), _is_of_service(body), version, _expiry(certificate))


def _connect(url: str) -> http.client.HTTPConnection:
    parts = urlsplit(url)
    host, port, secure = parts.hostname or "", parts.port, parts.scheme == "https"
    proxy = proxy_of(url)
    if proxy is None:
        kind = http.client.HTTPSConnection if secure else http.client.HTTPConnection
        return kind(host, port, timeout=_TIMEOUT)
    through = urlsplit(proxy)
    kind = http.client.HTTPSConnection if secure else http.client.HTTPConnection
    connection = kind(through.hostname or "", through.port, timeout=_TIMEOUT)
    connection.set_tunnel(host, port)
    return connection


def _ahead(date: str | None, now: float) -> float | None:
    """Return by how much `now` is later than a header, which has whole seconds."""
    try:
        return now - parsedate_to_datetime(date or "").timestamp() - 0.5
    except (ValueError, TypeError):
        return None


def _is_of_service(body: bytes) -> bool:
    try:
        answer = json.loads(body)
    except ValueError:
        return False
    return isinstance(answer, dict) and "code" in answer


def _expiry(certificate: Any) -> datetime | None:
    if not certificate:
        return None
    return datetime.fromtimestamp(ssl.cert_time_to_seconds(certificate["notAfter"]), UTC)
