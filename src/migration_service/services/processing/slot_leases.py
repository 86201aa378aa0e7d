"""The slots of attempts (section 8): acquired first, and later checked against the database."""

import time
from collections.abc import Sequence
from uuid import UUID

from redis import RedisError
from sqlalchemy import ARRAY, Uuid, bindparam, text
from sqlalchemy.orm import Session, sessionmaker

from migration_service.connections import log_if_unavailable
from migration_service.db.base import literals
from migration_service.errors import ServiceUnavailableError, ShareUsedError
from migration_service.services.processing.slots import (
    LiveAttempt,
    SlotOwedError,
    Slots,
    SlotShareUsedError,
    SlotsStaleError,
)
from migration_service.states import BatchKind, BatchMode, ImportState

#: Seconds to wait for slots lost by Redis to be restored from the database.
RESTORE_TIMEOUT = 5.0
#: Seconds that an organisation with less than its share waits for the next free slot.
OWED_TIMEOUT = 3.0
_PAUSE = 0.05


def acquire_slots(
    sessions: sessionmaker[Session],
    slots: Slots,
    attempts: Sequence[UUID],
    *,
    owner: int,
    limit: int | None,
    batch_cap: int | None = None,
    timeout: float = 0.0,
) -> Sequence[UUID]:
    """Acquire slots for `attempts`. Return the attempts that got one, which are the first ones.

    If no slot is free, wait up to `timeout` seconds for one, or OWED_TIMEOUT if the organisation has less
    than its share. `owner`, `limit` and `batch_cap` are those of `Slots.acquire`. Raise ShareUsedError if the
    organisation uses its whole share, and ServiceUnavailableError if Redis is unavailable or has lost slots
    that cannot be restored.
    """
    names = [str(attempt) for attempt in attempts]
    now = time.monotonic()
    deadline, restored_by = now + timeout, now + RESTORE_TIMEOUT
    while True:
        try:
            granted = slots.acquire(names, owner=owner, limit=limit, batch_cap=batch_cap)
            if granted or time.monotonic() >= deadline:
                return attempts[:granted]
        except SlotShareUsedError:
            if time.monotonic() >= deadline:
                raise ShareUsedError from None
        except SlotOwedError:
            if time.monotonic() >= max(deadline, now + OWED_TIMEOUT):
                return []
        except SlotsStaleError:
            if time.monotonic() >= restored_by:
                raise ServiceUnavailableError from None
            _restore(sessions, slots)
        except RedisError as error:
            raise ServiceUnavailableError from error
        time.sleep(_PAUSE)


def release_slots(slots: Slots, attempts: Sequence[UUID]) -> None:
    """Release the slots of these attempts. Without Redis their leases expire."""
    with log_if_unavailable("slots are released later"):
        slots.release([str(attempt) for attempt in attempts])


def reconcile_slots(session: Session, slots: Slots) -> None:
    """Renew or restore the slot of each attempt in progress, and release all other slots."""
    added = slots.reconcile(list_live_attempts(session))
    if added:
        # Some may have ended since they were read, and no longer hold a slot.
        still = {attempt.id for attempt in list_live_attempts(session, [UUID(id_) for id_ in added])}
        slots.release(set(added) - still)


def list_live_attempts(session: Session, among: Sequence[UUID] | None = None) -> list[LiveAttempt]:
    """Return the attempts that hold slots according to the database, among `among` if given."""
    rows = session.execute(_LIVE, {"among": None if among is None else list(among)})
    return [LiveAttempt(str(row.attempt), row.owner, batch=row.batch) for row in rows]


_LIVE = text(f"""
    SELECT * FROM (
        SELECT attempt_id AS attempt, organisation_id AS owner, FALSE AS batch
        FROM account_import_process JOIN import_supplier ON import_supplier.id = import_supplier_id
        WHERE state = '{ImportState.IN_PROGRESS}'
        UNION ALL
        SELECT attempt, organisation_id, TRUE
        FROM batch_chunk JOIN batch ON batch.id = batch_chunk.batch_id, unnest(attempts) AS attempt
        WHERE attempts IS NOT NULL AND mode IN ({literals(mode for mode in BatchMode if mode.creates)})
          AND kind = '{BatchKind.ACCOUNTS}'
    ) AS live
    WHERE :among IS NULL OR attempt = ANY (:among)
""").bindparams(bindparam("among", type_=ARRAY(Uuid)))


def _restore(sessions: sessionmaker[Session], slots: Slots) -> None:
    try:
        with sessions.begin() as session:
            reconcile_slots(session, slots)
    except RedisError as error:
        raise ServiceUnavailableError from error
