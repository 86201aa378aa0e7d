"""Processing a chunk in a worker, from its message to its outcomes. `chunks` describes the steps.

These functions open their own transactions, so they take a sessionmaker.
"""

import logging
import time
from collections.abc import Sequence
from uuid import UUID

from sqlalchemy.orm import Session, sessionmaker

from migration_service.db.base import new_id
from migration_service.errors import ServiceUnavailableError, ShareUsedError
from migration_service.services.batches.work.added_data.deferral import LONGEST_DEFERRAL
from migration_service.services.batches.work.added_data.instructions import ask_vendors
from migration_service.services.batches.work.chunks import (
    ChunkKey,
    claim_chunk,
    read_chunk,
    read_wanted_instructions,
    release_chunk,
    work_on_chunk,
)
from migration_service.services.batches.work.lines import ChunkPlan
from migration_service.services.processing.slots import Slots, acquire_slots

logger = logging.getLogger(__name__)

#: Seconds that a worker continues with one chunk, or waits for its slots, before another organisation has its
#: turn.
TURN_SECONDS = 0.1
#: Seconds that a worker waits before it releases a chunk because Redis is unavailable.
REDIS_PAUSE = 2.0
# If the concurrency limit is off, batches are not limited either.
_NO_CAP = 1_000_000


def perform_chunk(
    sessions: sessionmaker[Session],
    slots: Slots,
    key: ChunkKey,
    *,
    reserve: int,
    longest_deferral: float = LONGEST_DEFERRAL,
) -> bool:
    """Process the lines of a chunk, as many together as there are slots.

    `reserve` is the number of slots that batches leave for single requests, and `longest_deferral` the
    seconds that a line may wait for its account. Release the chunk and return False if lines are left because
    no slots were free or the time of the chunk is up.
    """
    deadline, is_throttled, is_over = time.monotonic() + TURN_SECONDS, False, False
    while time.monotonic() < deadline:
        with sessions.begin() as session:
            plan = read_chunk(session, key)
        if is_over := plan is None:
            break
        attempts = _acquire_slots(sessions, slots, plan, reserve)
        if not attempts:
            is_throttled = True
            break
        try:
            if _perform_piece(sessions, key, plan, attempts, longest_deferral):
                return True
        finally:
            if plan.slot_owner is not None:
                slots.release(attempts)
    with sessions.begin() as session:
        release_chunk(session, key, is_throttled=is_throttled)
    return is_over


def _perform_piece(
    sessions: sessionmaker[Session],
    key: ChunkKey,
    plan: ChunkPlan,
    attempts: Sequence[UUID],
    longest_deferral: float,
) -> bool:
    """Process as many lines as there are attempts. Return whether this worker has nothing left to do."""
    with sessions.begin() as session:
        claimed = claim_chunk(session, key, attempts)
    if not claimed:
        return True
    answers = None
    if plan.asks_vendors:
        with sessions.begin() as session:
            wanted = read_wanted_instructions(session, key, len(attempts), longest_deferral=longest_deferral)
        answers = ask_vendors(sessions, wanted)
    with sessions.begin() as session:
        return not work_on_chunk(session, key, attempts, answers=answers, longest_deferral=longest_deferral)


def _acquire_slots(
    sessions: sessionmaker[Session], slots: Slots, plan: ChunkPlan, reserve: int
) -> Sequence[UUID]:
    """Return new attempts, one for each line, or fewer if not enough slots became free in time."""
    attempts = [new_id() for _ in range(plan.lines)]
    if plan.slot_owner is None:
        return attempts
    cap = _NO_CAP if plan.limit is None else max(1, plan.limit - reserve)
    try:
        limits = {"limit": plan.limit, "batch_cap": cap}
        return acquire_slots(sessions, slots, attempts, owner=plan.slot_owner, timeout=TURN_SECONDS, **limits)
    except ShareUsedError:
        return []
    except ServiceUnavailableError as error:
        logger.warning("Redis is unavailable. A chunk waits for its slots: %s", error.__cause__)
        # The chunk is dispatched again immediately. Without a pause this would be a busy loop.
        time.sleep(REDIS_PAUSE)
        return []
