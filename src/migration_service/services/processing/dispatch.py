"""Handling a process request: its checks, slot, attempt and message, and the wait (section 4.3).

The database is written before the message is published, and queried every second even without a notification.
A lost message or notification costs time, but never an account. No database connection is held during the
wait.

These functions open their own transactions, because each step has to be committed before the next one. The
worker's part is in `execution`.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, cast
from uuid import UUID

from redis import Redis
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session, sessionmaker

from migration_service import errors
from migration_service.db.base import new_id
from migration_service.db.holding import is_lost, repeat
from migration_service.db.sql import SqlConnection, autocommit, begin
from migration_service.log import request_id
from migration_service.origin import current_origin
from migration_service.services.access.callers import Caller
from migration_service.services.idempotency.keys import EarlierAttempt, KeyedRequest, keep_answer
from migration_service.services.imports import states
from migration_service.services.imports.newer_versions import say_refused
from migration_service.services.imports.states import RunningAttempt, refusal
from migration_service.services.processing.attempts import withdraw_attempt
from migration_service.services.processing.signals import announce, wait_for_notification
from migration_service.services.processing.slots import Slots, acquire_slots
from migration_service.services.setup.suppliers import require_ongoing, require_supplier_allowed
from migration_service.states import ImportState

#: Seconds to wait for the notification before the database is queried.
WAIT_SLICE = 1.0
#: Seconds until a commit that did not wait is on disk. PostgreSQL guarantees three times its
#: wal_writer_delay, which is 0.2 seconds by default.
ON_DISK_WITHIN = 5.0


_NO_OUTCOME = "The database does not answer. The account may be created or not. Send the same request again."


class AttemptUndoneError(errors.ServiceUnavailableError):
    """A server of PostgreSQL was lost before the attempt was on disk, so it has never started."""


@dataclass(frozen=True, slots=True)
class Dispatch:
    """The means to hand an attempt to a worker and wait for it."""

    Session: sessionmaker[Session]
    slots: Slots
    redis: Redis
    #: A client that allows commands to block for WAIT_SLICE, with a connection for each waiting request.
    waiting_redis: Redis
    #: Publishes the message that attempts are waiting (`signals.announce`).
    publish: Callable[[], object]
    #: Seconds that a request waits for its outcome.
    wait_seconds: float


def begin_attempt(
    d: Dispatch, caller: Caller, order: Mapping[str, Any], *, keyed: KeyedRequest | None, until: float | None
) -> UUID:
    """Start an attempt to create a staged account, announce it to the workers, and return its id.

    `order` is the body, as ProcessRequestSchema loads it. `keyed` is the request if it has an idempotency
    key: the attempt is its answer. `until` is the time, as of `time.monotonic`, until which
    `wait_for_outcome` will wait, or None if it will not be called.

    Raise an InvalidError with the reason if the account cannot be processed now. Raise
    ConcurrencyLimitReachedError if no slot is free, ShareUsedError if the organisation uses its whole share,
    and ServiceUnavailableError if Redis is unavailable. After any of these, nothing has started.
    """
    # A client that does not wait is promised that the attempt will run, so it must be on disk.
    durable = until is None or until - time.monotonic() < ON_DISK_WITHIN
    with autocommit(d.Session) as connection:
        found = _check(connection, caller, order)
    attempt = RunningAttempt(
        id=new_id(),
        account_import_process_id=found.id,
        operations_team_id=found.team_id,
        api_key_id=caller.api_key_id,
        dry_run=order["dry_run"],
        request_id=request_id.get(),
        address=current_origin().address,
    )
    owner, limit = caller.organisation_id, found.concurrency_limit
    if not acquire_slots(d.Session, d.slots, [attempt.id], owner=owner, limit=limit):
        raise errors.ConcurrencyLimitReachedError
    try:
        if not _store(d, attempt, keyed, durable=durable):
            with autocommit(d.Session) as connection:
                _check(connection, caller, order)  # raises the error of the new state
            raise errors.AccountImportInProgressError  # which has changed again
    except BaseException:
        # If a commit has succeeded whose answer was lost, the sweep takes the slot again.
        d.slots.release([attempt.id])
        raise
    announce(d.redis, d.publish)
    return attempt.id


def wait_for_outcome(d: Dispatch, attempt_id: UUID, until: float) -> str | None:
    """Wait for the attempt to end, until this time.

    Return its service account number, or None if it is still running.

    Raise an InvalidError with the reason if no account was created (including DryRunSucceededError),
    NoWorkerAvailableError if no worker started the attempt in time, and AttemptUndoneError if it was lost
    with a server of PostgreSQL. After any of these, nothing continues in the background. Raise
    ServiceUnavailableError if the database does not answer at the end.
    """
    while (left := until - time.monotonic()) > 0:
        number = wait_for_notification(d.waiting_redis, attempt_id, min(WAIT_SLICE, left))
        if number := number or _look(d, attempt_id):
            return number
        announce(d.redis, d.publish)  # the last message may have been lost
    try:
        withdrawn = repeat(d.Session, partial(_withdraw, d, attempt_id))
    except SQLAlchemyError as error:
        if not is_lost(d.Session, error):
            raise
        raise errors.ServiceUnavailableError(_NO_OUTCOME) from error
    if withdrawn:
        d.slots.release([attempt_id])
        raise errors.NoWorkerAvailableError
    return _find_outcome(d, attempt_id)


def _look(d: Dispatch, attempt_id: UUID) -> str | None:
    """Return what `_find_outcome` returns, or None while the database does not answer."""
    try:
        return _find_outcome(d, attempt_id)
    except SQLAlchemyError as error:
        if not is_lost(d.Session, error):
            raise
        return None


def _withdraw(d: Dispatch, attempt_id: UUID) -> bool:
    with begin(d.Session) as transaction:
        return withdraw_attempt(transaction, attempt_id)


_CHECK = f"""
    SELECT supplier.id AS supplier_id, supplier.status, process.id,
           process.service_account_number, process.refused_at, process.refused_errors, team.id AS team_id,
           (SELECT concurrency_limit FROM service_limit) AS concurrency_limit,
           CASE WHEN process.state <> '{ImportState.PENDING}' THEN process.state
                WHEN EXISTS (SELECT FROM skip_mark WHERE skip_mark.import_supplier_id = supplier.id
                             AND skip_mark.external_account_number = %(external_account_number)s)
                THEN '{ImportState.SKIPPED}' ELSE '{ImportState.PENDING}' END AS state
    FROM import_supplier supplier
    LEFT JOIN account_import_process process ON process.import_supplier_id = supplier.id
         AND process.external_account_number = %(external_account_number)s
    LEFT JOIN LATERAL (
        SELECT id FROM operations_team
        WHERE name = %(operations_team_name)s
          AND (organisation_id = supplier.organisation_id OR organisation_id IS NULL)
        ORDER BY organisation_id NULLS LAST LIMIT 1) AS team ON true
    WHERE supplier.organisation_id = %(organisation_id)s AND supplier.code = %(import_supplier_code)s
"""


_FIND_TEAM = """
    SELECT FROM operations_team
    WHERE name = %(operations_team_name)s
      AND (organisation_id = %(organisation_id)s OR organisation_id IS NULL) LIMIT 1
"""


def _check(connection: SqlConnection, caller: Caller, order: Mapping[str, Any]) -> Any:
    """Return the row of an account that can be processed now, or raise an InvalidError with the reason."""
    code, number = order["import_supplier_code"], order["external_account_number"]
    rows = connection.execute(_CHECK, {"organisation_id": caller.organisation_id, **order})
    if not rows:
        unknown = errors.ImportSupplierNotFoundInBodyError(found=code)
        # Only in this body is the field called import_supplier_code.
        unknown.errors = [replace(item, attr="import_supplier_code") for item in unknown.errors]
        if not connection.execute(_FIND_TEAM, {"organisation_id": caller.organisation_id, **order}):
            unknown.errors += errors.OperationsTeamNotFoundError(found=order["operations_team_name"]).errors
        raise unknown
    (found,) = rows
    require_supplier_allowed(found.supplier_id, code)
    # The account is checked before its supplier, so that the answer for an imported one has its numbers.
    if error := refusal(ImportState(found.state), number, found.service_account_number):
        if found.refused_at and found.state == ImportState.IMPORTED:
            error.errors += say_refused(found.refused_at, found.refused_errors or ())
        raise error
    require_ongoing(found.status)
    missing: list[errors.InvalidError] = []
    if found.id is None:
        missing.append(errors.AccountNotStagedError(found=number))
    if found.team_id is None:
        missing.append(errors.OperationsTeamNotFoundError(found=order["operations_team_name"]))
    if missing:
        missing[0].errors = [item for error in missing for item in error.errors]
        raise missing[0]
    return found


def _store(d: Dispatch, attempt: RunningAttempt, keyed: KeyedRequest | None, *, durable: bool) -> bool:
    """Commit the attempt, together with its idempotency key. Return False if the account is not PENDING."""
    if keyed is None:
        return repeat(d.Session, partial(_start, d, attempt, durable=durable))
    with begin(d.Session) as transaction:
        if started := states.start(transaction, attempt, durable=durable):
            keep_answer(transaction, keyed, EarlierAttempt(attempt.id))
        return started


def _start(d: Dispatch, attempt: RunningAttempt, *, durable: bool) -> bool:
    """Start the attempt, unless it has started: the answer to the first try may have been lost."""
    with autocommit(d.Session) as connection:
        return states.start(connection, attempt, durable=durable) or states.has_started(connection, attempt)


def _find_outcome(d: Dispatch, attempt_id: UUID) -> str | None:
    """Return the service account number of an attempt, or None if it is running. Raise its error."""
    with autocommit(d.Session) as connection:
        columns = "service_account_number, error_code, error_detail, errors"
        rows = connection.execute(f"SELECT {columns} FROM attempt WHERE id = %(id)s", {"id": attempt_id})
    if not rows:
        d.slots.release([attempt_id])
        raise AttemptUndoneError
    (found,) = rows
    if found.error_code:
        items = [errors.ErrorItem(**item) for item in found.errors or ()]
        raise errors.AccountCreationFailedError(found.error_detail, code=found.error_code, errors=items)
    return cast(str | None, found.service_account_number)
