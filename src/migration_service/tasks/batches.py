"""The tasks for the chunks of batches, and the dispatch of further chunks."""

import logging
from uuid import UUID

from celery import shared_task
from celery.exceptions import SoftTimeLimitExceeded
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session, sessionmaker

from migration_service.db.holding import repeat
from migration_service.log import request_id
from migration_service.services.batches.work.chunks import ChunkKey, release_chunk
from migration_service.services.batches.work.execution import perform_chunk
from migration_service.services.batches.work.feed import dispatch_chunks, dispatch_vendor_chunks, take_chunk
from migration_service.tasks.app import MigrationCelery, celery_app
from migration_service.tasks.names import RUN_CHUNK, RUN_VENDOR_CHUNK
from migration_service.tasks.publishing import publish

logger = logging.getLogger(__name__)


@shared_task(name=RUN_CHUNK)
def run_chunk(batch_id: str, first_line: int) -> str:
    """Process the chunk whose turn it is, or else the named one, then dispatch the next ones.

    Flower and the log show the result.
    """
    return _run(batch_id, first_line, asks_vendors=False)


@shared_task(name=RUN_VENDOR_CHUNK)
def run_vendor_chunk(batch_id: str, first_line: int) -> str:
    """Do the same for a chunk of payment instructions. The workers of its queue may wait for vendors."""
    return _run(batch_id, first_line, asks_vendors=True)


def _run(batch_id: str, first_line: int, *, asks_vendors: bool) -> str:
    app = celery_app()
    resources = app.resources
    with resources.Session.begin() as session:
        taken = take_chunk(session, asks_vendors=asks_vendors)
    # If no chunk is waiting, the worker of this message's own chunk may have died.
    key = taken or ChunkKey(UUID(batch_id), first_line)
    request_id.set(f"batch {key.batch_id}")  # as its attempts have
    try:
        done = perform_chunk(
            resources.Session,
            resources.slots,
            key,
            reserve=app.settings.batch_slot_reserve,
            longest_deferral=app.settings.deferral_hours * 3600,
        )
    except SoftTimeLimitExceeded:
        done = False
        logger.warning("A piece of a chunk took too long. Its lines are processed again in smaller pieces.")
        with resources.Session.begin() as session:
            release_chunk(session, key, is_throttled=False)
    feed_batches(app, resources.Session, key.batch_id)
    outcome = "done" if done else "released: no slots, or no time left"
    return f"line {key.first_line} of {key.batch_id}: {outcome}"


def feed_batches(app: MigrationCelery, sessions: sessionmaker[Session], batch_id: UUID | None = None) -> None:
    """Publish the next chunks, after one of this batch has ended. If that fails, the sweep does it again."""
    in_flight = app.settings.batch_chunks_in_flight

    def dispatch() -> list[tuple[str, UUID, int]]:
        with sessions.begin() as session:
            chunks = [(RUN_CHUNK, *it) for it in dispatch_chunks(session, in_flight, batch_id)]
            return chunks + [(RUN_VENDOR_CHUNK, *it) for it in dispatch_vendor_chunks(session, in_flight)]

    try:
        chunks = repeat(sessions, dispatch)
    except OperationalError as error:
        logger.warning("The database is unavailable, and chunks are dispatched later: %s", error)
        return
    for task, its_batch, first_line in chunks:
        # Flower truncates long arguments, so the line comes first.
        shown = f"(line {first_line} of {its_batch})"
        if not publish(app, task, str(its_batch), first_line, shown=shown):
            return
