"""Posting a message to an endpoint, and what came of it."""

import http.client
import math
import socket
import ssl
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from urllib3.exceptions import DecodeError, HTTPError, LocationParseError, NameResolutionError

from migration_service.outgoing.guarded import Answer, GuardedClient
from migration_service.outgoing.rules import AddressNotAllowedError
from migration_service.services.deliveries.claims import Outcome
from migration_service.states import DeliveryFailure

#: The number of characters of an answer that are kept.
KEPT_CHARACTERS = 500

#: Root causes of a failed request, from specific to general.
_CAUSES: tuple[tuple[type[BaseException] | tuple[type[BaseException], ...], DeliveryFailure], ...] = (
    (AddressNotAllowedError, DeliveryFailure.ADDRESS_NOT_ALLOWED),
    ((socket.gaierror, NameResolutionError, LocationParseError, UnicodeError), DeliveryFailure.HOST_UNKNOWN),
    ((ssl.SSLEOFError, ssl.SSLZeroReturnError, ssl.SSLSyscallError), DeliveryFailure.CONNECTION),
    (ssl.SSLError, DeliveryFailure.TLS),
    ((http.client.RemoteDisconnected, http.client.IncompleteRead), DeliveryFailure.CONNECTION),
    ((http.client.HTTPException, DecodeError), DeliveryFailure.ANSWER_INVALID),
    (TimeoutError, DeliveryFailure.TIMEOUT),
)


def post(client: GuardedClient, url: str, headers: Mapping[str, str], body: bytes) -> Outcome:
    """Post a message. It is delivered if the answer has a status from 200 to 299."""
    try:
        answer = client.post(url, body, headers)
    except (HTTPError, http.client.HTTPException, OSError, ValueError) as error:
        return Outcome(failure=_explain(error))
    return Outcome(
        status=answer.status,
        failure=_judge(answer.status),
        answer=_readable(answer.body),
        retry_after=_retry_after(answer),
    )


def _judge(status: int) -> DeliveryFailure | None:
    if 200 <= status < 300:
        return None
    if status == 410:
        return DeliveryFailure.GONE
    return DeliveryFailure.REDIRECT if 300 <= status < 400 else DeliveryFailure.STATUS


def _readable(body: bytes) -> str:
    text = body[: 4 * KEPT_CHARACTERS].decode("utf-8", "replace")
    return "".join(it if it.isprintable() else " " for it in text[:KEPT_CHARACTERS]).strip()


def _retry_after(answer: Answer) -> float | None:
    """Return the seconds of the header Retry-After, which are a number or a date."""
    if not (text := answer.headers.get("Retry-After", "").strip()):
        return None
    try:
        seconds = float(text) if text.isascii() and text.isdigit() else _until(text)
    except (ValueError, OverflowError):
        return None
    return max(0.0, seconds) if math.isfinite(seconds) else None


def _until(date: str) -> float:
    moment = parsedate_to_datetime(date)
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return (aware - datetime.now(UTC)).total_seconds()


def _explain(error: BaseException) -> DeliveryFailure:
    """Return the failure, by its root cause."""
    chain: list[BaseException] = []
    cause: BaseException | None = error
    while cause is not None and cause not in chain:
        chain.insert(0, cause)
        cause = cause.__cause__ or cause.__context__
    for found in chain:
        for kinds, failure in _CAUSES:
            if isinstance(found, kinds):
                return failure
    return DeliveryFailure.CONNECTION
