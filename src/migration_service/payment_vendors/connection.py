"""HTTP calls to a vendor, with limits on time, size, retries, and calls to an unavailable vendor.

Every failure ends as one of three errors (section 4.11): the vendor rejects the instruction, the vendor
cannot be reached for a permanent reason (400), or it is temporarily unavailable (500).
"""

import http.client
import json
import logging
import secrets
import socket
import ssl
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http.cookiejar import DefaultCookiePolicy
from typing import Any
from urllib.parse import quote

import requests
from urllib3.exceptions import DecodeError, HTTPError, LocationParseError, ProxyError

from migration_service.errors import (
    PaymentInstructionRejectedError,
    PaymentVendorUnavailableError,
    PaymentVendorUnreachableError,
)
from migration_service.outgoing.deadlines import TimedAdapter
from migration_service.payment_vendors.addresses import check_vendor_url
from migration_service.payment_vendors.breaker import CircuitBreaker, NotCalledError
from migration_service.payment_vendors.protocol import UNKNOWN_INSTRUCTION

logger = logging.getLogger(__name__)

_UNKNOWN_INSTRUCTION = {404, 410}
_REFUSED_INSTRUCTION = {400, 402, 422}
_REFUSED_CREDENTIALS = {401, 403, 407}
_WORTH_RETRYING_LATER = {408, 409, 423, 424, 425}


class _NameServerSilentError(OSError):
    """The name could not be resolved now, but may still be valid."""


#: Root causes of a failed call, from specific to general: whether each is permanent, and the reason.
_FAILURES: tuple[tuple[type[Exception] | tuple[type[Exception], ...], bool, str], ...] = (
    (_NameServerSilentError, False, "its host name cannot be resolved right now"),
    ((socket.gaierror, LocationParseError), True, "its host name is unknown"),
    (ssl.SSLCertVerificationError, True, "its certificate is not valid"),
    ((ssl.SSLEOFError, ssl.SSLZeroReturnError, ssl.SSLSyscallError), False, "the connection was cut"),
    (ssl.SSLError, True, "no TLS connection can be established"),
    ((http.client.RemoteDisconnected, http.client.IncompleteRead), False, "the connection was cut"),
    ((http.client.HTTPException, DecodeError), True, "its answer is invalid: not HTTP"),
    ((requests.Timeout, TimeoutError), False, "it did not answer in time"),
    (ProxyError, False, "the proxy did not let the call through"),
    (ConnectionError, False, "the connection was refused or cut"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CallLimits:
    """Limits of a call, in seconds. The defaults keep a request to this service below ten seconds."""

    #: For connecting to each address of the vendor's host.
    connect_seconds: float = 2.0
    #: From the end of the request to the last byte of the response.
    answer_seconds: float = 3.0
    #: For all attempts, including the pauses between them.
    total_seconds: float = 8.0
    attempts: int = 3
    #: The first pause. Each further pause is twice as long, and each varies randomly by half.
    pause_seconds: float = 0.1
    max_body_bytes: int = 64 * 1024
    #: The number of consecutive failed calls (each with all its attempts) after which calls are suspended.
    failures_to_open: int = 5
    open_seconds: float = 30.0


def _authenticating(
    secret: str | None,
) -> Callable[[requests.PreparedRequest], requests.PreparedRequest]:
    """Return what adds the secret to a request, if there is one.

    Without an `auth`, requests would send the credentials in ~/.netrc.
    """

    def add(request: requests.PreparedRequest) -> requests.PreparedRequest:
        if secret is not None:
            request.headers["Authorization"] = f"Bearer {secret}"
        return request

    return add


class VendorConnection:
    """A client for one vendor, which threads may share. It keeps connections open between calls."""

    def __init__(
        self,
        *,
        name: str,
        url: str,
        secret: str | None = None,
        limits: CallLimits | None = None,
        headers: Mapping[str, str] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        check_vendor_url(url, with_secret=secret is not None)
        self._name = name
        self._url = url.rstrip("/")
        self._limits = limits or CallLimits()
        self._clock = clock
        self._breaker = CircuitBreaker(
            failures_to_open=self._limits.failures_to_open,
            open_seconds=self._limits.open_seconds,
            clock=clock,
        )
        self._session = requests.Session()
        self._session.mount("https://", TimedAdapter())
        self._session.mount("http://", TimedAdapter())
        self._session.cookies.set_policy(DefaultCookiePolicy(allowed_domains=[]))
        self._session.headers.update({"Accept": "application/json", "Accept-Encoding": "identity"})
        self._session.headers.update({"User-Agent": "migration-service", **(headers or {})})
        self._session.auth = _authenticating(secret)

    def __repr__(self) -> str:
        return f"<VendorConnection {self._name!r}>"

    def get(self, *segments: str, query: Mapping[str, str] | None = None) -> dict[str, Any]:
        """Return the JSON object at the path made of `segments`, each percent-encoded as a whole.

        Raise the errors of VendorClient.
        """
        if not self._breaker.allows_call():
            reason = "it has failed several times in a row, and is not called for a moment"
            raise self._unavailable(reason, NotCalledError)
        path = "/".join(quote(segment, safe="") for segment in segments)
        try:
            answer = self._try_repeatedly(f"{self._url}/{path}", query or {})
        except PaymentVendorUnavailableError:
            self._breaker.record_failure()
            raise
        except (PaymentInstructionRejectedError, PaymentVendorUnreachableError):
            # A definite response, or a failure that fewer calls would not fix.
            self._breaker.record_success()
            raise
        self._breaker.record_success()
        return answer

    def invalid_answer(self, what: str) -> PaymentVendorUnreachableError:
        """Return the error for a response that the adapter cannot interpret. `what` ends its sentence."""
        return self._unreachable(f"its answer is invalid: {what}")

    def _try_repeatedly(self, url: str, query: Mapping[str, str]) -> dict[str, Any]:
        deadline = self._clock() + self._limits.total_seconds
        pause = self._limits.pause_seconds
        for attempt in range(1, self._limits.attempts + 1):
            try:
                return self._try_once(url, query, deadline - self._clock())
            except PaymentVendorUnavailableError as error:
                varied_pause = pause * (0.5 + secrets.SystemRandom().random())
                too_late = self._clock() + varied_pause >= deadline
                if attempt == self._limits.attempts or too_late or isinstance(error, _BusyError):
                    raise
            time.sleep(varied_pause)
            pause *= 2
        raise AssertionError("at least one attempt is made")

    def _try_once(self, url: str, query: Mapping[str, str], seconds: float) -> dict[str, Any]:
        connect_seconds = min(self._limits.connect_seconds, seconds / 2)
        answer_seconds = min(self._limits.answer_seconds, seconds - connect_seconds)
        try:
            with self._session.get(
                url,
                params=dict(query),
                timeout=(connect_seconds, answer_seconds),
                allow_redirects=False,
                stream=True,
            ) as response:
                self._check_status(response.status_code)
                body = self._read_body(response)
        except (requests.RequestException, HTTPError, http.client.HTTPException, OSError) as error:
            raise self._explain(error) from error
        return self._parse(body)

    def _check_status(self, status: int) -> None:
        if status == 200:
            return
        if status in _UNKNOWN_INSTRUCTION:
            raise PaymentInstructionRejectedError(UNKNOWN_INSTRUCTION)
        if status in _REFUSED_INSTRUCTION:
            raise PaymentInstructionRejectedError("The payment vendor refuses this payment instruction.")
        if status == 429:
            # No retry, because the vendor has just asked for fewer requests.
            raise self._unavailable("it received too many requests (status 429)", _BusyError)
        if status in _WORTH_RETRYING_LATER or status >= 500:
            raise self._unavailable(f"it answered with status {status}")
        if status in _REFUSED_CREDENTIALS:
            raise self._unreachable(f"it rejects the credentials of this service (status {status})")
        if 300 <= status < 400:
            raise self._unreachable(f"it answered with a redirect (status {status})")
        raise self.invalid_answer(f"status {status}")

    def _read_body(self, response: requests.Response) -> bytes:
        body = b""
        for piece in response.iter_content(8192):
            body += piece
            if len(body) > self._limits.max_body_bytes:
                raise self.invalid_answer(f"more than {self._limits.max_body_bytes} bytes")
        return body

    def _parse(self, body: bytes) -> dict[str, Any]:
        try:
            answer = json.loads(body)
        except (ValueError, RecursionError) as error:
            raise self.invalid_answer("not JSON") from error
        if not isinstance(answer, dict):
            raise self.invalid_answer("not a JSON object")
        return answer

    def _explain(self, error: Exception) -> PaymentVendorUnreachableError | PaymentVendorUnavailableError:
        """Return the error for a failed call, by its root cause."""
        for cause in _causes(error):
            for kinds, lasting, reason in _FAILURES:
                if isinstance(cause, kinds):
                    return self._unreachable(reason) if lasting else self._unavailable(reason)
        return self._unavailable(f"the call failed ({type(error).__name__})")

    def _unavailable(
        self, reason: str, error_class: type[PaymentVendorUnavailableError] = PaymentVendorUnavailableError
    ) -> PaymentVendorUnavailableError:
        logger.warning("Payment vendor %s is unavailable: %s.", self._name, reason)
        return error_class(f"The payment vendor is unavailable: {reason}. Send the same request again later.")

    def _unreachable(self, reason: str) -> PaymentVendorUnreachableError:
        logger.error("Payment vendor %s is unreachable: %s.", self._name, reason)
        return PaymentVendorUnreachableError(
            f"The payment vendor cannot be reached: {reason}. Retrying does not help until this is fixed."
        )


class _BusyError(PaymentVendorUnavailableError):
    """The vendor must not be called again within this call."""


def _causes(error: BaseException | None) -> list[BaseException]:
    """Return the error and its causes, the root cause first."""
    chain: list[BaseException] = []
    while error is not None and error not in chain:
        silent = isinstance(error, socket.gaierror) and error.errno == socket.EAI_AGAIN
        chain.insert(0, _NameServerSilentError() if silent else error)
        error = error.__cause__ or error.__context__
    return chain
