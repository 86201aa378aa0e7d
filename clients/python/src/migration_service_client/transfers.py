"""Requests on their way, with libcurl: the only module that knows the HTTP library.

Any thread may send, and waits for the answer. `AsyncClient` has threads of its own for it.
"""

import re
import ssl
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import urlsplit

import pycurl

from migration_service_client.conversations import Answer, NoAnswer, Send
from migration_service_client.requests import Lines, Pages, Request
from migration_service_client.streams import Stream
from migration_service_client.uploads import Upload

_AGENT = "migration-service-client/0.1.0"
_CHUNK = 256 * 1024
#: Bytes of a file for which the service may take another second before it answers.
_STORED_IN_A_SECOND = 10_000_000
#: Errors that another try would end with, too.
_FINAL = (
    pycurl.E_UNSUPPORTED_PROTOCOL,
    pycurl.E_URL_MALFORMAT,
    pycurl.E_PEER_FAILED_VERIFICATION,
    pycurl.E_SSL_CACERT_BADFILE,
)
#: Files with the certificates that a system trusts, if Python does not know one.
_CERTIFICATES = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
)

#: What libcurl says about the way of a request.
_PROXY = re.compile(r"Uses proxy env variable \w+ == '([^']+)'")
_TLS = re.compile(r"SSL connection using (\S+)")

_Take: TypeAlias = Callable[[bytes], None]
_IsCancelled: TypeAlias = Callable[[], bool]


class CancelledError(Exception):
    """Nobody waits for the answer any longer."""


@dataclass(frozen=True, slots=True)
class Way:
    """What libcurl tells of the way of a request."""

    #: The proxy that it went through, without its password.
    proxy: str | None
    #: The version of TLS, and the end of the certificate's validity in libcurl's words. None without TLS.
    tls: str | None
    certificate_ends: str | None
    #: Whether the certificate was refused.
    is_refused: bool


@dataclass(frozen=True, slots=True)
class Network:
    """How the service is reached. `Client` describes each."""

    base_url: str
    timeout: float
    connections: int
    ca_file: str | None
    proxy: str | None


class Connections:
    """The connections of a client. Each sends one request at a time."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self._options = _options(network)
        # Those that are idle are ready for a request. The last one used is the first one taken.
        self._idle: deque[Any] = deque()
        self._places = threading.Semaphore(network.connections)

    def send(self, step: Send, is_cancelled: _IsCancelled | None = None) -> Answer | NoAnswer:
        """Send a request, and return its answer. Raise CancelledError soon after `is_cancelled` is true.

        If the step is streamed, return a good answer when it begins, with a Stream.
        """
        if step.is_streamed:
            stream = Stream(is_cancelled)
            threading.Thread(target=self._receive, args=(step, stream), daemon=True).start()
            return stream.answer()
        head: list[bytes] = []
        body: list[bytes] = []
        began = time.monotonic()
        error = self._perform(step, head.append, body.append, is_cancelled)
        return error or Answer(*_parse(head), b"".join(body), time.monotonic() - began)

    def close(self) -> None:
        """Close the connections that are idle."""
        while self._idle:
            self._idle.pop().close()

    def _receive(self, step: Send, stream: Stream) -> None:
        head: list[bytes] = []

        def begin() -> None:
            if head:
                stream.put(Answer(*_parse(head)))
                head.clear()

        def take_body(chunk: bytes) -> None:
            begin()
            stream.put(chunk)

        end: NoAnswer | BaseException | None
        try:
            end = self._perform(step, head.append, take_body, stream.is_closed)
            if end is None:
                begin()
        except BaseException as error:
            end = error
        stream.put(end)

    def _perform(
        self, step: Send, take_head: _Take, take_body: _Take, is_cancelled: _IsCancelled | None
    ) -> NoAnswer | None:
        with self._places:
            handle = self._take()
            if not _is_plain(step.request):
                # The body of an earlier request would be sent instead of a file.
                self._ready(handle)
            _set_request(handle, self._network, step)
            handle.setopt(pycurl.HEADERFUNCTION, take_head)
            handle.setopt(pycurl.WRITEFUNCTION, take_body)
            error = _perform(handle, step.request.body, is_cancelled)
            # One that raised is not used again.
            self._idle.append(handle if _is_plain(step.request) else self._ready(handle))
            return error

    def _take(self) -> Any:
        try:
            return self._idle.pop()
        except IndexError:
            return self._ready(pycurl.Curl())

    def _ready(self, handle: Any) -> Any:
        handle.reset()
        for option, value in self._options:
            handle.setopt(option, value)
        return handle


def examine(network: Network, request: Request[Any]) -> tuple[Answer | NoAnswer, Way]:
    """Send a request once, without a token, as `Connections` would, and tell its way."""
    handle = pycurl.Curl()
    head: list[bytes] = []
    body: list[bytes] = []
    told: list[bytes] = []
    try:
        for option, value in _options(network):
            handle.setopt(option, value)
        _set_request(handle, network, Send(request, None))
        handle.setopt(pycurl.TIMEOUT, max(1, round(network.timeout)))
        handle.setopt(pycurl.HEADERFUNCTION, head.append)
        handle.setopt(pycurl.WRITEFUNCTION, body.append)
        handle.setopt(pycurl.OPT_CERTINFO, 1)
        handle.setopt(pycurl.VERBOSE, 1)
        handle.setopt(pycurl.DEBUGFUNCTION, lambda kind, text: told.append(text) if kind == 0 else None)
        failed = _perform(handle, None, None)
        certificates = handle.getinfo(pycurl.INFO_CERTINFO)
        verdict = handle.getinfo(pycurl.SSL_VERIFYRESULT)
    finally:
        handle.close()
    said = b"\n".join(told).decode("latin-1")
    ends = dict(certificates[0]).get("Expire date") if certificates else None
    way = Way(_proxy_in(network, said), _first(_TLS, said), ends, failed is not None and verdict != 0)
    return failed or Answer(*_parse(head), b"".join(body)), way


def _proxy_in(network: Network, said: str) -> str | None:
    proxy = network.proxy or _first(_PROXY, said)
    if not proxy:
        return None
    found = urlsplit(proxy if "//" in proxy else f"http://{proxy}")
    return f"{found.scheme}://{found.hostname}:{found.port or 1080}"


def _first(pattern: re.Pattern[str], text: str) -> str | None:
    found = pattern.search(text)
    return found and found[1]


def _is_plain(request: Request[Any]) -> bool:
    """Return whether each of its options is set again for the next request."""
    return not isinstance(request, Pages | Lines) and not isinstance(request.body, Upload)


def _options(network: Network) -> list[tuple[int, Any]]:
    """Return what all requests have."""
    seconds = max(1, round(network.timeout))
    options: list[tuple[int, Any]] = [
        (pycurl.NOSIGNAL, 1),
        (pycurl.HTTP_VERSION, pycurl.CURL_HTTP_VERSION_1_1),
        (pycurl.USERAGENT, _AGENT),
        (pycurl.TCP_KEEPALIVE, 1),
        (pycurl.CONNECTTIMEOUT, seconds),
        # A connection is broken after so many seconds with less than a byte.
        (pycurl.LOW_SPEED_LIMIT, 1),
        (pycurl.LOW_SPEED_TIME, seconds),
    ]
    if network.ca_file is not None:
        options.append((pycurl.CAINFO, network.ca_file))
    else:
        known = (ssl.get_default_verify_paths().cafile, *_CERTIFICATES)
        options += [(pycurl.CAINFO, it) for it in known if it and Path(it).exists()][:1]
        options.append((pycurl.SSL_OPTIONS, pycurl.SSLOPT_NATIVE_CA))
    if network.proxy is not None:
        options += [(pycurl.PROXY, network.proxy), (pycurl.NOPROXY, "")]
    return options


def _set_request(handle: Any, network: Network, step: Send) -> None:
    request = step.request
    # libcurl would wait for permission to send a large body, and name the type of an empty one.
    headers = ["Expect:", "Content-Type:"] if request.body is None else ["Expect:"]
    headers += [f"{name}: {value}" for name, value in request.headers.items()]
    if step.token is not None:
        headers.append(f"Authorization: Token {step.token}")
    handle.setopt(pycurl.URL, network.base_url + request.target)
    if isinstance(request.body, Upload):
        handle.setopt(pycurl.POST, 1)
        handle.setopt(pycurl.POSTFIELDSIZE_LARGE, request.body.size)
        handle.setopt(pycurl.UPLOAD_BUFFERSIZE, _CHUNK)
        # No byte comes while the service stores the file.
        patience = network.timeout + (request.body.size or 0) / _STORED_IN_A_SECOND
        handle.setopt(pycurl.LOW_SPEED_TIME, max(1, round(patience)))
    elif request.method == "GET":
        handle.setopt(pycurl.HTTPGET, 1)
    else:
        handle.setopt(pycurl.POSTFIELDS, request.body or b"")
    handle.setopt(pycurl.CUSTOMREQUEST, request.method)
    handle.setopt(pycurl.HTTPHEADER, headers)
    if isinstance(request, Pages | Lines):
        handle.setopt(pycurl.ACCEPT_ENCODING, "gzip")
        handle.setopt(pycurl.BUFFERSIZE, _CHUNK)


def _perform(handle: Any, body: Any, is_cancelled: _IsCancelled | None) -> NoAnswer | None:
    """Send and receive. Return why no answer came. An error of the file, or of its progress, is raised."""
    raised: list[BaseException] = []

    def read(size: int) -> bytes | int:
        try:
            return bytes(body.read(size))
        except BaseException as error:
            raised.append(error)
            return int(pycurl.READFUNC_ABORT)

    def rewind(offset: int, _: int) -> int:
        body.rewind(offset)
        return int(pycurl.SEEKFUNC_OK)

    if isinstance(body, Upload):
        handle.setopt(pycurl.READFUNCTION, read)
        handle.setopt(pycurl.SEEKFUNCTION, rewind)
    # libcurl calls it at least once a second. In the main thread Python then notices Ctrl-C.
    watches = is_cancelled is not None or threading.current_thread() is threading.main_thread()
    handle.setopt(pycurl.NOPROGRESS, not watches)
    if watches:
        handle.setopt(pycurl.XFERINFOFUNCTION, lambda *_: is_cancelled is not None and is_cancelled())
    try:
        handle.perform()
    except pycurl.error as error:
        if raised:
            raise raised[0] from None
        code, message = error.args
        if code == pycurl.E_ABORTED_BY_CALLBACK:
            raise CancelledError from None
        is_final = (
            code in _FINAL
            or handle.getinfo(pycurl.HTTP_CONNECTCODE) == HTTPStatus.PROXY_AUTHENTICATION_REQUIRED
        )
        return NoAnswer(message, is_final)
    return None


def _parse(head: list[bytes]) -> tuple[int, dict[str, str]]:
    """Return the status and the headers, with names in lower case, of the last head."""
    text = b"\r\n".join((b"", *head)).decode("latin-1")
    status, _, lines = text.rpartition("\r\nHTTP/")[2].partition("\r\n")
    pairs = (line.partition(":") for line in lines.split("\r\n"))
    return int(status.split()[1]), {name.lower(): value.strip() for name, colon, value in pairs if colon}
