"""What is sent, and when it is sent again, without sending anything.

A conversation is a generator: it yields steps, gets their results, and returns what was asked for. `Client`
and `AsyncClient` take the steps. docs/suppliers/retries.md is the contract.
"""

import json
import logging
import random
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field, replace
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Any, TypeAlias, TypeVar
from urllib.parse import parse_qsl, urlsplit

from migration_service_client import models, operations
from migration_service_client.answers import decode, parse
from migration_service_client.codes import BY_CODE, AccountAlreadyImported, AuthenticationFailed
from migration_service_client.errors import ServiceError, ServiceUnreachable, UnexpectedAnswer
from migration_service_client.keys import idempotency_key
from migration_service_client.requests import Json, Pages, Request

logger = logging.getLogger("migration_service_client")

T = TypeVar("T")
R = TypeVar("R", bound=Request[Any])

#: Seconds between two questions, if the service does not say.
_POLL = 1.0
_LONGEST_PAUSE = 60.0
#: The first pause while a batch or an undo is waited for.
_FIRST_PAUSE = 0.1
#: Part of a pause by which it is longer at most, so that clients that began together do not go on together.
_JITTER = 0.25


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer. If that was asked for, `stream` is what the driver reads on from, and `body` is empty."""

    status: int
    headers: dict[str, str]
    body: bytes = b""
    seconds: float = 0.0
    stream: Any = field(default=None, repr=False)

    @property
    def is_ok(self) -> bool:
        """Return whether it is what was asked for."""
        return HTTPStatus.OK <= self.status < HTTPStatus.MULTIPLE_CHOICES

    @property
    def is_cut_off(self) -> bool:
        """Return whether it is JSON without its end, because the service could not go on."""
        if not self.is_ok or not self.headers.get("content-type", "").startswith("application/json"):
            return False
        text = self.body.strip()
        return (text[:1], text[-1:]) not in ((b"{", b"}"), (b"[", b"]"))

    def retry_after(self) -> float | None:
        """Return the seconds that the service wants to pass before the next request, or None."""
        text = self.headers.get("retry-after", "")
        if text.isascii() and text.isdigit():
            return float(text)
        try:
            moment = parsedate_to_datetime(text)
            return max(0.0, (moment - parsedate_to_datetime(self.headers["date"])).total_seconds())
        except (ValueError, TypeError, KeyError):
            return None


@dataclass(frozen=True, slots=True)
class NoAnswer:
    """No answer came. `is_final` if another try would end the same way, as with a certificate."""

    reason: str
    is_final: bool = False


@dataclass(frozen=True, slots=True)
class Send:
    """A step: send this once. Its result is an Answer or NoAnswer."""

    request: Request[Any]
    token: str | None = field(repr=False)
    #: Whether the body of a good answer is left unread.
    is_streamed: bool = False


@dataclass(frozen=True, slots=True)
class Pause:
    """A step: wait for so many seconds."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Authorize:
    """A step whose result is a token: another one than `stale`, which was refused."""

    stale: str | None = field(default=None, repr=False)


Step: TypeAlias = Send | Pause | Authorize | Request[Any]
Conversation: TypeAlias = Generator[Step, Any, T]


@dataclass(frozen=True, slots=True)
class Policy:
    """For how many seconds of pauses a request is sent again, and a number from 0 to 1 at each call."""

    patience: float
    jitter: Callable[[], float] = random.random


def pause_before(answer: Answer | NoAnswer, tries: int, jitter: float) -> float | None:
    """Return the seconds until the same request is sent again, after so many tries. None if it is not.

    >>> pause_before(Answer(429, {"retry-after": "3"}), tries=1, jitter=0.0)
    3.0
    >>> pause_before(Answer(502, {}), tries=3, jitter=1.0)
    5.0
    >>> pause_before(Answer(400, {}), tries=1, jitter=0.0) is None
    True
    """
    wanted: float | None = None
    if isinstance(answer, Answer):
        if answer.status < HTTPStatus.BAD_REQUEST or answer.status == HTTPStatus.UNAUTHORIZED:
            return None
        wanted = answer.retry_after()
        if wanted is None and answer.status < HTTPStatus.INTERNAL_SERVER_ERROR:
            return None
    elif answer.is_final:
        return None
    if wanted is None:
        wanted = min(_LONGEST_PAUSE, 2.0 ** (tries - 1))
    return wanted + max(wanted, 1.0) * _JITTER * jitter


def exchange(request: Request[Any], policy: Policy, *, is_streamed: bool = False) -> Conversation[Answer]:
    """Send a request until it has a good answer. Raise the error that it is answered with."""
    token: str | None = (yield Authorize()) if request.authorized else None
    waited, tries, renewed = 0.0, 0, False
    while True:
        tries += 1
        answer: Answer | NoAnswer = yield Send(request, token, is_streamed)
        if isinstance(answer, Answer) and answer.is_cut_off and not is_streamed:
            answer = NoAnswer("The answer broke off")
        _log(request, answer, tries)
        if isinstance(answer, Answer) and answer.is_ok:
            return answer
        pause, left = pause_before(answer, tries, policy.jitter()), policy.patience - waited
        if pause is not None and not (isinstance(answer, Answer) and answer.retry_after() is not None):
            pause = min(pause, left)  # so that the last try is at the end of all patience
        refused = isinstance(answer, Answer) and answer.status == HTTPStatus.UNAUTHORIZED
        if refused and request.authorized and not renewed:
            renewed = True
            token = yield Authorize(stale=token)
        elif pause is not None and pause <= left and left > 0:
            waited += pause
            yield Pause(pause)
        elif isinstance(answer, NoAnswer):
            counted = "1 try" if tries == 1 else f"{tries} tries"
            raise ServiceUnreachable(f"{request.operation} had no answer after {counted}: {answer.reason}")
        else:
            raise error_of(answer)


def single(request: Request[T], policy: Policy) -> Conversation[T]:
    """Send a request, and return its answer as its type.

    An attempt is followed to its outcome, and what is not ready yet is asked for at its Location.
    """
    while True:
        answer = yield from exchange(request, policy)
        if request.method == "GET" and answer.status == HTTPStatus.ACCEPTED:
            yield Pause((answer.retry_after() or _POLL) * (1 + _JITTER * policy.jitter()))
            request = _elsewhere(request, answer.headers.get("location", ""))
            continue
        if not (request.follow and answer.status == HTTPStatus.ACCEPTED):
            decoded: T = decode(request.answer, parse(answer.body))
            return decoded
        attempt_id = parse(answer.body)["attempt_id"]
        attempt: models.AttemptAnswer | None = None
        while attempt is None or attempt.outcome is None:
            yield Pause((answer.retry_after() or _POLL) * (1 + _JITTER * policy.jitter()))
            answer = yield from exchange(operations.get_attempt(attempt_id), policy)
            attempt = decode(models.AttemptAnswer, parse(answer.body))
        if attempt.service_account_number is not None:
            created: T = decode(request.answer, {"service_account_number": attempt.service_account_number})
            return created
        # What no worker took in time is sent again.
        if attempt.outcome != "WITHDRAWN":
            raise service_error(HTTPStatus.BAD_REQUEST, parse(answer.body)["error"], answer)


def page(request: Pages[T], policy: Policy) -> Conversation[tuple[list[T], Pages[T] | None]]:
    """Return a page of a list, and the request for the next one, if there is one."""
    answer = yield from exchange(request, policy)
    items = [decode(request.answer, it) for it in parse(answer.body)]
    link = answer.headers.get("link", "")
    # The feed of events has a next page also if it has ended for now.
    if not items or 'rel="next"' not in link:
        return items, None
    return items, _elsewhere(request, link.partition("<")[2].partition(">")[0])


def _elsewhere(request: R, location: str) -> R:
    """Return the same request at an address that an answer had."""
    address = urlsplit(location)
    return replace(request, path=address.path, query=dict(parse_qsl(address.query)))


def error_of(answer: Answer) -> Exception:
    """Return the error of an answer."""
    try:
        body = parse(answer.body)
    except UnexpectedAnswer:
        body = None
    if not isinstance(body, dict) or "code" not in body:
        return UnexpectedAnswer(f"The answer is a {answer.status} that does not come from the service.")
    return service_error(answer.status, body, answer)


def service_error(status: int, body: Json, answer: Answer) -> ServiceError:
    """Return the error of this body, in the class of its code."""
    return BY_CODE.get(str(body.get("code")), ServiceError)(status, body, answer.headers.get("x-request-id"))


def _log(request: Request[Any], answer: Answer | NoAnswer, tries: int) -> None:
    """Log a try: the operation, and never its path, which has numbers of accounts."""
    if isinstance(answer, NoAnswer):
        logger.warning("%s had no answer in try %d: %s", request.operation, tries, answer.reason)
        return
    if answer.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        logger.warning("%s was answered %d in try %d", request.operation, answer.status, tries)
        return
    level = logging.DEBUG if answer.is_ok else logging.INFO
    if logger.isEnabledFor(level):
        name = answer.headers.get("x-request-id", "-")
        logger.log(
            level,
            "%s was answered %d in %.3f s in try %d, request %s",
            *(request.operation, answer.status, answer.seconds, tries, name),
        )


_OBTAIN = """mutation Obtain($input: ObtainServiceTokenInput!) {
  obtainServiceToken(input: $input) { token refreshToken payload }
}"""


class Tokens:
    """The tokens of a client. A driver calls it under its lock."""

    def __init__(self, api_key: str) -> None:
        self._api_key = api_key
        self._refresh: str | None = None
        self._token: str | None = None
        self._renew_at = 0.0

    def current(self, stale: str | None, now: float) -> str | None:
        """Return a token that holds for a while, and is not the one that was refused, or None."""
        return self._token if self._token != stale and now < self._renew_at else None

    def renewal(self, now: float) -> Conversation[str]:
        """Obtain a token with the refresh token, or with the key if there is none, or if it is refused.

        `now` is a moment by a clock that only goes forward. The token is renewed when a tenth of its time is
        left.
        """
        body = yield self._request()
        if body.get("errors") and self._refresh:
            self._refresh = None
            body = yield self._request()
        if errors := body.get("errors"):
            code = errors[0].get("extensions", {}).get("errorCode", "authentication_failed")
            kind = BY_CODE.get(code, AuthenticationFailed)
            raise kind(HTTPStatus.UNAUTHORIZED, {"code": code, "detail": errors[0].get("message", "")})
        answered = body["data"]["obtainServiceToken"]
        claims = answered["payload"]
        self._token, self._refresh = str(answered["token"]), str(answered["refreshToken"])
        self._renew_at = now + 0.9 * float(claims["exp"] - claims["iat"])
        return self._token

    def _request(self) -> Request[dict[str, Any]]:
        given = {"refreshToken": self._refresh} if self._refresh else {"APIKey": self._api_key}
        body = json.dumps({"query": _OBTAIN, "variables": {"input": given}}).encode()
        return Request("obtain_token", "POST", "/v1/graphql/", dict[str, Any], body=body, authorized=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatedAccount(models.CreatedAccount):
    """An account that was created, with what its payload was warned of: dropped or changed members."""

    warnings: tuple[models.Finding, ...] = ()


def create_account(
    account: Json | bytes | str,
    *,
    operations_team_name: str,
    book: str | None = None,
    line: int | str | None = None,
    extracted_at: str | None = None,
) -> Conversation[CreatedAccount]:
    """Stage an account and create it. An account that exists is answered with its number.

    With `book` and `line` the idempotency key is derived from them and from the content: a process that
    starts again after a crash sends the same one. Without them each call has a key of its own.
    """
    payload = parse(account) if isinstance(account, bytes | str) else account
    key = None if book is None or line is None else idempotency_key(book, line, account)
    warnings: tuple[models.Finding, ...] = ()
    try:
        staged: models.StagingReport = yield operations.stage_account(account, extracted_at=extracted_at)
        warnings = staged.warnings
        created: models.CreatedAccount = yield operations.process_account(
            external_account_number=payload["external_account_number"],
            import_supplier_code=payload["import_supplier"],
            operations_team_name=operations_team_name,
            idempotency_key=key,
        )
        number = created.service_account_number
    except AccountAlreadyImported as error:
        # One that differs from what was sent is told as the error that it is.
        if {it.code for it in error.errors} != {error.code}:
            raise
        number = str(error.service_account_number)
    return CreatedAccount(service_account_number=number, warnings=warnings)


def wait_for_batch(
    batch_id: str,
    *,
    seconds: float = 2.0,
    progress: Callable[[models.BatchProgressAnswer], None] | None = None,
) -> Conversation[models.BatchProgressAnswer]:
    """Ask for a batch until it is neither RUNNING nor WAITING, and return it.

    It is asked for every so many seconds, and more often at the beginning, because a small batch ends soon.
    `progress` is called with each answer.
    """
    pauses = _pauses(seconds)
    while True:
        batch: models.BatchProgressAnswer = yield operations.get_batch(batch_id)
        if progress is not None:
            progress(batch)
        if batch.state not in ("RUNNING", "WAITING"):
            return batch
        yield Pause(next(pauses))


def wait_for_undo(undo_id: str, *, seconds: float = 2.0) -> Conversation[models.UndoProgressAnswer]:
    """Ask for an undo until it has ended, and return it. `seconds` is as for `wait_for_batch`."""
    pauses = _pauses(seconds)
    while True:
        undo: models.UndoProgressAnswer = yield operations.get_undo(undo_id)
        if undo.finished_at is not None:
            return undo
        yield Pause(next(pauses))


def _pauses(seconds: float) -> Iterator[float]:
    pause = min(_FIRST_PAUSE, seconds)
    while True:
        yield pause
        pause = min(1.5 * pause, seconds)


def conversation(asked: Request[T] | Conversation[T], policy: Policy) -> Conversation[T]:
    """Return the conversation of a request, or the conversation that was asked for."""
    if isinstance(asked, Request):
        return single(asked, policy)
    return asked
