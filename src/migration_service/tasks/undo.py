"""The task that reverts the accounts of an undo, and the sweep that dispatches it."""

import time
from uuid import UUID

from celery import shared_task
from sqlalchemy.orm import Session, sessionmaker

from migration_service.log import request_id
from migration_service.services.undo.execution import Progress, revert_piece, take_due_undos
from migration_service.tasks.app import MigrationCelery, celery_app
from migration_service.tasks.names import REVERT_ACCOUNTS, SWEEP_UNDOS
from migration_service.tasks.publishing import publish

#: Seconds that a worker continues with one undo before others have their turn.
REVERT_SECONDS = 5.0


@shared_task(name=REVERT_ACCOUNTS)
def revert_accounts(undo_id: str) -> str:
    """Revert accounts of an undo for some seconds, then publish the next message for it.

    Flower and the log show the result.
    """
    app = celery_app()
    request_id.set(f"undo {undo_id}")
    until = time.monotonic() + REVERT_SECONDS
    progress = Progress.WORKED
    while progress is Progress.WORKED and time.monotonic() < until:
        with app.resources.Session.begin() as session:
            progress = revert_piece(session, UUID(undo_id))
    if progress is Progress.WORKED:
        publish(app, REVERT_ACCOUNTS, undo_id)
    elif progress is Progress.OVER:
        dispatch_undos(app, app.resources.Session)
    return progress.name.lower()


@shared_task(name=SWEEP_UNDOS, send_events=False)
def sweep_undos() -> None:
    """Dispatch the undos that no worker has processed for some seconds."""
    app = celery_app()
    dispatch_undos(app, app.resources.Session)


def dispatch_undos(app: MigrationCelery, sessions: sessionmaker[Session]) -> None:
    """Publish a message for each undo that is due. If that fails, the sweep publishes it."""
    with sessions.begin() as session:
        due = take_due_undos(session)
    for undo_id in due:
        if not publish(app, REVERT_ACCOUNTS, str(undo_id)):
            return
