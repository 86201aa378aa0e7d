"""From an accepted request to its outcome: slot, attempt, message, and the wait (section 4.3).

The database is told before the broker, and asked every second that no bell was heard: so a lost message or
a lost bell costs time, never an account. Nothing here holds a database connection while it waits.
"""

import logging
import time
from dataclasses import dataclass
from typing import cast
from uuid import UUID

from kombu.exceptions import OperationalError
from redis import Redis, RedisError
from sqlalchemy.orm import Session, sessionmaker

from migration_service.db.base import new_id
from migration_service.db.statements import autocommit
from migration_service.errors import (
    AccountCreationFailedError,
    AccountImportInProgressError,
    ConcurrencyLimitReachedError,
    ServiceUnavailableError,
)
from migration_service.log import request_id
from migration_service.services.access.tokens import Caller
from migration_service.services.processing.acceptance import ProcessOrder, begin_attempt, check_request
from migration_service.services.processing.attempts import find_answer, withdraw_attempt
from migration_service.services.processing.creation import is_service_account_number
from migration_service.services.processing.slot_upkeep import reconcile_slots
from migration_service.slots import Slots, SlotsStaleError
from migration_service.states import Outcome
from migration_service.tasks.accounts import CREATE_ACCOUNT, bell
from migration_service.tasks.app import MigrationCelery

logger = logging.getLogger(__name__)

#: How long one wait for the bell lasts; then the database is asked.
WAIT_SLICE = 1.0
#: How long a request waits for slots that were lost to be made again.
SLOTS_PATIENCE = 5.0


@dataclass(frozen=True, slots=True)
class Dispatch:
    """What is needed to hand an attempt over and to wait for it."""

    Session: sessionmaker[Session]
    slots: Slots
    #: A client whose commands may block for WAIT_SLICE, with a connection for each waiting request.
    waiting_redis: Redis
    celery: MigrationCelery
    wait_seconds: float


def process_account(d: Dispatch, caller: Caller, order: ProcessOrder, *, wait: bool) -> str | None:
    """Have a worker create a staged account; its service account number, or None: still under way.

    Raises the InvalidError that says why there is no account (DryRunSucceededError among them),
    ConcurrencyLimitReachedError where no slot is free or no worker took it in time, and
    ServiceUnavailableError where the slots cannot be reached. Whatever it raises, nothing goes on
    behind the client's back.
    """
    with autocommit(d.Session) as statements:
        request = check_request(statements, caller, order)
    attempt_id = new_id()
    _take_slot(d, attempt_id, request.limit)
    try:
        with autocommit(d.Session) as statements:
            begun = begin_attempt(
                statements, attempt_id, request, api_key_id=caller.api_key_id, request_id=request_id.get()
            )
            if not begun:
                check_request(statements, caller, order)  # raises what the other one made of it
        if not begun:
            raise AccountImportInProgressError
    except BaseException:
        _release_slot(d, attempt_id)
        raise
    publish_attempt(d.celery, attempt_id)
    return _wait(d, attempt_id) if wait else None


def publish_attempt(celery: MigrationCelery, attempt_id: UUID) -> None:
    """Tell the workers about an attempt. If that fails, the sweep does it again."""
    try:
        celery.send_task(
            CREATE_ACCOUNT, args=[str(attempt_id)], retry=False, headers={"request_id": request_id.get()}
        )
    except (OperationalError, RedisError) as error:
        logger.warning("The broker is away: attempt %s is published later: %s", attempt_id, error)


def _take_slot(d: Dispatch, attempt_id: UUID, limit: int | None) -> None:
    until = time.monotonic() + SLOTS_PATIENCE
    while True:
        try:
            granted = d.slots.acquire([str(attempt_id)], limit=limit)
            break
        except SlotsStaleError:
            if time.monotonic() > until:
                raise ServiceUnavailableError from None
            time.sleep(0.05)
            _reconcile(d)
        except RedisError as error:
            raise ServiceUnavailableError from error
    if not granted:
        raise ConcurrencyLimitReachedError


def _reconcile(d: Dispatch) -> None:
    try:
        with d.Session.begin() as session:
            reconcile_slots(session, d.slots)
    except RedisError as error:
        raise ServiceUnavailableError from error


def _release_slot(d: Dispatch, attempt_id: UUID) -> None:
    try:
        d.slots.release([str(attempt_id)])
    except RedisError as error:
        logger.warning("Redis is away: the slot of attempt %s is freed later: %s", attempt_id, error)


def _wait(d: Dispatch, attempt_id: UUID) -> str | None:
    until = time.monotonic() + d.wait_seconds
    while (left := until - time.monotonic()) > 0:
        try:
            rung = d.waiting_redis.blpop([bell(attempt_id)], timeout=min(WAIT_SLICE, left))
        except RedisError:
            time.sleep(min(0.2, left))
        else:
            if rung and (number := read_bell(cast(bytes, rung[1]))):
                return number
        answered, number = _answer(d, attempt_id)
        if answered:
            return number
    with d.Session.begin() as session:
        withdrawn = withdraw_attempt(session, attempt_id)
    if withdrawn:
        _release_slot(d, attempt_id)
        raise ConcurrencyLimitReachedError("No worker was free in time, and nothing was changed. Try again.")
    return _answer(d, attempt_id)[1]


def read_bell(rung_with: bytes) -> str | None:
    """The service account number that a bell was rung with; None: ask the database.

    The worker rings after its commit, on a bell named after this one attempt, so a number is the outcome.
    Whatever does not look like one is not believed.
    """
    text = rung_with.decode("ascii", "replace")
    return text if is_service_account_number(text) else None


def _answer(d: Dispatch, attempt_id: UUID) -> tuple[bool, str | None]:
    """Whether the attempt ended, and with which number. Raises what it failed with."""
    with autocommit(d.Session) as statements:
        answer = find_answer(statements, attempt_id)
    if answer.outcome in (Outcome.FAILED, Outcome.DRY_RUN_SUCCEEDED):
        raise AccountCreationFailedError(answer.error_detail, code=answer.error_code, errors=answer.errors)
    return answer.outcome is not None, answer.service_account_number
