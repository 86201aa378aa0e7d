"""Working on batches: the task for one chunk, and what keeps the chunks coming."""

import logging
import time
from uuid import UUID

from celery import shared_task
from kombu.exceptions import OperationalError
from redis import RedisError
from sqlalchemy.orm import Session, sessionmaker

from migration_service.db.base import new_id
from migration_service.services.batches.chunks import (
    ChunkKey,
    ChunkOutlook,
    claim_chunk,
    look_at_chunk,
    release_chunk,
    work_on_chunk,
)
from migration_service.services.batches.feed import dispatch_chunks
from migration_service.services.processing.slot_upkeep import reconcile_slots
from migration_service.slots import SlotsStaleError
from migration_service.tasks.app import MigrationCelery, WorkerResources, celery_app

logger = logging.getLogger(__name__)

RUN_CHUNK = "batches.run_chunk"
#: How long a worker waits for a slot before it gives the chunk back, in seconds.
SLOT_PATIENCE = 2.0
#: How long a worker goes on with the pieces of one chunk, in seconds.
CHUNK_PATIENCE = 15.0
# With the limit off, batches have no bound either.
_NO_CAP = 1_000_000


@shared_task(name=RUN_CHUNK)
def run_chunk(batch_id: str, first_line: int) -> str:
    """Work on a chunk of a batch, then see to it that the next ones come.

    Nobody fetches the result: it is what Flower and the log show of the task.
    """
    app = celery_app()
    key = ChunkKey(UUID(batch_id), first_line)
    done = perform_chunk(app.resources, key, reserve=app.settings.batch_slot_reserve)
    if not done:
        with app.resources.Session.begin() as session:
            release_chunk(session, key)
    feed_batches(app, app.resources.Session)
    return "done" if done else "given back: no slots in time"


def perform_chunk(resources: WorkerResources, key: ChunkKey, *, reserve: int) -> bool:
    """Bring the lines of a chunk to their outcomes, as many at once as there are slots.

    False where some are left because there were no slots in time.
    """
    until = time.monotonic() + CHUNK_PATIENCE
    while time.monotonic() < until:
        with resources.Session.begin() as session:
            outlook = look_at_chunk(session, key)
        if outlook is None:
            return True
        attempts = [new_id() for _ in range(outlook.lines)]
        try:
            attempts = _take_slots(resources, outlook, attempts, reserve)
            if not attempts:
                return False
            with resources.Session.begin() as session:
                claimed = claim_chunk(session, key, attempts)
            if not claimed:
                return True
            with resources.Session.begin() as session:
                left = work_on_chunk(session, key, attempts)
            if not left:
                return True
        finally:
            if outlook.needs_slots:
                _release_slots(resources, attempts)
    return False


def _take_slots(
    resources: WorkerResources, outlook: ChunkOutlook, attempts: list[UUID], reserve: int
) -> list[UUID]:
    """Those of `attempts` for which there are slots; waits a moment for the first one."""
    if not outlook.needs_slots:
        return attempts
    cap = _NO_CAP if outlook.limit is None else max(1, outlook.limit - reserve)
    names = [str(attempt) for attempt in attempts]
    until = time.monotonic() + SLOT_PATIENCE
    while time.monotonic() < until:
        try:
            if granted := resources.slots.acquire(names, limit=outlook.limit, batch_cap=cap):
                return attempts[:granted]
        except SlotsStaleError:
            with resources.Session.begin() as session:
                reconcile_slots(session, resources.slots)
        except RedisError as error:
            logger.warning("Redis is away: a chunk waits for its slots: %s", error)
        time.sleep(0.05)
    return []


def _release_slots(resources: WorkerResources, attempts: list[UUID]) -> None:
    try:
        resources.slots.release([str(attempt) for attempt in attempts])
    except RedisError as error:
        logger.warning("Redis is away: the slots of a chunk are freed later: %s", error)


def feed_batches(app: MigrationCelery, sessions: sessionmaker[Session]) -> None:
    """Publish the chunks that are to be worked on next. If that fails, the sweep does it again."""
    with sessions.begin() as session:
        chunks = dispatch_chunks(session, app.settings.batch_chunks_in_flight)
    try:
        for batch_id, first_line in chunks:
            # Flower cuts long arguments off at the end: so the line comes first there.
            shown = f"(line {first_line} of {batch_id})"
            app.send_task(RUN_CHUNK, args=[str(batch_id), first_line], argsrepr=shown, retry=False)
    except (OperationalError, RedisError) as error:
        logger.warning("The broker is away: chunks are published later: %s", error)
