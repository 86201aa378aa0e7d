"""From a process request to its outcome: checks, slot, attempt, message, and the wait (section 4.3).

The database is written before the broker, and asked every second without a notification. So a lost message or
a lost notification costs time, never an account. No database connection is held during the wait.

These functions open their own transactions, which is why they take a sessionmaker: each step has to be
committed before the next one. The worker's part is in `execution`.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from uuid import UUID

from redis import Redis
from sqlalchemy.orm import Session, sessionmaker

from migration_service.db.statements import autocommit, begin
from migration_service.errors import (
    AccountCreationFailedError,
    AccountImportInProgressError,
    ConcurrencyLimitReachedError,
    NoWorkerAvailableError,
    ServiceUnavailableError,
)
from migration_service.log import request_id
from migration_service.origin import current_origin
from migration_service.services.access.callers import Caller
from migration_service.services.imports import states
from migration_service.services.imports.states import RunningAttempt
from migration_service.services.processing.acceptance import ProcessOrder, check_request
from migration_service.services.processing.attempts import find_answer, withdraw_attempt
from migration_service.services.processing.signals import announce, wait_for_notification
from migration_service.services.processing.slot_leases import acquire_slots, release_slots
from migration_service.slots import Slots
from migration_service.states import Outcome

#: Seconds of one wait for the notification. Then the database is asked.
WAIT_SLICE = 1.0
#: Seconds after which a commit that did not wait for the disk is there. PostgreSQL promises three times its
#: wal_writer_delay, which is 0.2 seconds unless an operator has changed it.
ON_DISK_WITHIN = 5.0


@dataclass(frozen=True, slots=True)
class Dispatch:
    """What it takes to hand an attempt to a worker, and to wait for it."""

    Session: sessionmaker[Session]
    slots: Slots
    redis: Redis
    #: A client whose commands may block for WAIT_SLICE, with a connection for each waiting request.
    waiting_redis: Redis
    #: Publish the message that attempts wait (`signals.announce`).
    publish: Callable[[], object]
    #: Seconds for which a request waits for its outcome.
    wait_seconds: float


def begin_attempt(d: Dispatch, caller: Caller, order: ProcessOrder, attempt_id: UUID, *, waits: bool) -> None:
    """Begin the attempt to create a staged account, and announce it to the workers.

    `attempt_id` is a new id, which the attempt gets. `waits` says that `wait_for_outcome` is called next.

    Raise the InvalidError that says why the account cannot be processed now. Raise
    ConcurrencyLimitReachedError if no slot is free, ShareUsedError if the organisation has its share of them,
    and ServiceUnavailableError if Redis is unavailable. After any of these, nothing has begun.
    """
    # Who does not wait is promised that the attempt runs, so it must be on disk.
    durable = not waits or d.wait_seconds < ON_DISK_WITHIN
    _begin(d, caller, order, attempt_id, durable=durable)
    announce(d.redis, d.publish)


def wait_for_outcome(d: Dispatch, attempt_id: UUID) -> str | None:
    """Wait until the attempt has ended. Return its service account number, or None if it still runs.

    Raise the InvalidError that says why no account was created (DryRunSucceededError included),
    NoWorkerAvailableError if no worker took the attempt in time, and ServiceUnavailableError if a crash of
    PostgreSQL has undone it. After any of these, nothing continues in the background.
    """
    deadline = time.monotonic() + d.wait_seconds
    while (left := deadline - time.monotonic()) > 0:
        if number := wait_for_notification(d.waiting_redis, attempt_id, min(WAIT_SLICE, left)):
            return number
        ended, number = _find_outcome(d, attempt_id)
        if ended:
            return number
        announce(d.redis, d.publish)  # the last one may have been lost
    with begin(d.Session) as transaction:
        withdrawn = withdraw_attempt(transaction, attempt_id)
    if withdrawn:
        release_slots(d.slots, [attempt_id])
        raise NoWorkerAvailableError
    return _find_outcome(d, attempt_id)[1]


def _begin(d: Dispatch, caller: Caller, order: ProcessOrder, attempt_id: UUID, *, durable: bool) -> None:
    with autocommit(d.Session) as statements:
        request = check_request(statements, caller, order)
    attempt = RunningAttempt(
        id=attempt_id,
        account_import_process_id=request.account_import_process_id,
        operations_team_id=request.operations_team_id,
        api_key_id=caller.api_key_id,
        dry_run=order.dry_run,
        request_id=request_id.get(),
        address=current_origin().address,
    )
    if not acquire_slots(d.Session, d.slots, [attempt.id], owner=caller.organisation_id, limit=request.limit):
        raise ConcurrencyLimitReachedError
    try:
        with autocommit(d.Session) as statements:
            if not states.begin(statements, attempt, durable=durable):
                check_request(statements, caller, order)  # raises the state that another request has made
                raise AccountImportInProgressError
    except BaseException:
        release_slots(d.slots, [attempt.id])
        raise


def _find_outcome(d: Dispatch, attempt_id: UUID) -> tuple[bool, str | None]:
    """Return whether the attempt has ended, and its service account number. Raise the error it ended with."""
    with autocommit(d.Session) as statements:
        answer = find_answer(statements, attempt_id)
    if answer is None:
        release_slots(d.slots, [attempt_id])
        raise ServiceUnavailableError
    if answer.outcome in (Outcome.FAILED, Outcome.DRY_RUN_SUCCEEDED):
        raise AccountCreationFailedError(answer.error_detail, code=answer.error_code, errors=answer.errors)
    return answer.outcome is not None, answer.service_account_number
