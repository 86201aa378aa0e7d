"""The task for one chunk of a batch, and the dispatch of the next ones."""

from uuid import UUID

from celery import shared_task
from sqlalchemy.orm import Session, sessionmaker

from migration_service.services.batches.chunks import ChunkKey
from migration_service.services.batches.execution import perform_chunk
from migration_service.services.batches.feed import feed
from migration_service.tasks.app import MigrationCelery, celery_app
from migration_service.tasks.publishing import publish

RUN_CHUNK = "batches.run_chunk"


@shared_task(name=RUN_CHUNK)
def run_chunk(batch_id: str, first_line: int) -> str:
    """Work on a chunk of a batch, then dispatch the next ones.

    Flower and the log show the result.
    """
    app = celery_app()
    resources, key = app.resources, ChunkKey(UUID(batch_id), first_line)
    done = perform_chunk(
        resources.Session,
        resources.slots,
        key,
        reserve=app.settings.batch_slot_reserve,
        line_seconds=app.settings.line_processor_seconds,
        longest_deferral=app.settings.deferral_hours * 3600,
    )
    feed_batches(app, resources.Session)
    return "done" if done else "released: no slots, or no time left"


def feed_batches(app: MigrationCelery, sessions: sessionmaker[Session]) -> None:
    """Publish the chunks that are to be worked on next. If that fails, the sweep does it again."""
    feed(
        sessions,
        app.settings.batch_chunks_in_flight,
        # Flower cuts long arguments at the end, so the line comes first.
        lambda batch_id, first_line: publish(
            app, RUN_CHUNK, str(batch_id), first_line, shown=f"(line {first_line} of {batch_id})"
        ),
    )
