"""The task that does pieces of comparisons, and the sweep that dispatches them."""

import time
from uuid import UUID

from celery import shared_task
from sqlalchemy.orm import Session, sessionmaker

from migration_service.services.reconciliation.comparisons import Progress, do_piece, take_due_comparisons
from migration_service.tasks.app import MigrationCelery, celery_app
from migration_service.tasks.names import COMPARE, SWEEP_COMPARISONS
from migration_service.tasks.publishing import publish

#: Seconds that a worker continues with one comparison before others have their turn.
COMPARE_SECONDS = 2.0


@shared_task(name=COMPARE)
def compare(comparison_id: str) -> str:
    """Do pieces of a comparison for some seconds, then publish the next message for it.

    Flower and the log show the result.
    """
    app = celery_app()
    until = time.monotonic() + COMPARE_SECONDS
    progress = Progress.WORKED
    while progress is Progress.WORKED and time.monotonic() < until:
        with app.resources.Session.begin() as session:
            progress = do_piece(session, UUID(comparison_id))
    if progress is Progress.WORKED:
        publish(app, COMPARE, comparison_id)
    elif progress is Progress.OVER:
        dispatch_comparisons(app, app.resources.Session)
    return progress.name.lower()


@shared_task(name=SWEEP_COMPARISONS, send_events=False)
def sweep_comparisons() -> None:
    """Dispatch the comparisons of which nobody has done a piece for some seconds."""
    app = celery_app()
    dispatch_comparisons(app, app.resources.Session)


def dispatch_comparisons(app: MigrationCelery, sessions: sessionmaker[Session]) -> None:
    """Publish a message for each comparison that is due. If that fails, the sweep publishes it."""
    with sessions.begin() as session:
        due = take_due_comparisons(session)
    for comparison_id in due:
        if not publish(app, COMPARE, str(comparison_id)):
            return
