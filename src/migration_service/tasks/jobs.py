"""The tasks that do pieces of undos, comparisons, go-lives and certificates, and the sweep over these."""

import time
from collections.abc import Callable
from typing import NamedTuple
from uuid import UUID

from celery import shared_task
from sqlalchemy.orm import Session, sessionmaker

from migration_service.db.jobs import Progress, take_due
from migration_service.log import request_id
from migration_service.services.certificates.making import certify_piece
from migration_service.services.reconciliation.comparisons import do_piece
from migration_service.services.undo.execution import revert_piece
from migration_service.services.undo.going_live import mark_piece
from migration_service.tasks.app import MigrationCelery, celery_app
from migration_service.tasks.names import CERTIFY, COMPARE, MARK_LIVE, REVERT_ACCOUNTS
from migration_service.tasks.publishing import publish


class Jobs(NamedTuple):
    """A kind of job: its table, the task that does pieces of one, and what does a piece."""

    table: str
    task: str
    do_piece: Callable[[Session, UUID], Progress]
    #: SQL for whether it is time for one.
    is_due: str = "TRUE"


UNDOS = Jobs("undo", REVERT_ACCOUNTS, revert_piece)
COMPARISONS = Jobs("comparison", COMPARE, do_piece)
GO_LIVES = Jobs("go_live", MARK_LIVE, mark_piece, "live_at <= clock_timestamp()")
CERTIFICATES = Jobs(
    "certificate",
    CERTIFY,
    lambda session, job_id: certify_piece(session, job_id, celery_app().settings.certificate_key),
)
#: Seconds that a worker continues with one job before others have their turn.
SECONDS = {UNDOS: 5.0, COMPARISONS: 2.0, GO_LIVES: 5.0, CERTIFICATES: 2.0}


def _task_of(jobs: Jobs) -> Callable[[str], str]:
    def work(job_id: str) -> str:
        """Do pieces of a job for some seconds, then publish the next message for it.

        Flower and the log show the result.
        """
        app = celery_app()
        request_id.set(f"{jobs.table} {job_id}")
        until = time.monotonic() + SECONDS[jobs]
        progress = Progress.WORKED
        while progress is Progress.WORKED and time.monotonic() < until:
            with app.resources.Session.begin() as session:
                progress = jobs.do_piece(session, UUID(job_id))
        if progress is Progress.WORKED:
            publish(app, jobs.task, job_id)
        elif progress is Progress.OVER:
            dispatch(app, app.resources.Session, jobs)
        return progress.name.lower()

    return work


for _jobs in SECONDS:
    shared_task(name=_jobs.task)(_task_of(_jobs))


def sweep_jobs() -> None:
    """Dispatch the undos, comparisons and go-lives that nobody has done for some seconds."""
    app = celery_app()
    for jobs in SECONDS:
        dispatch(app, app.resources.Session, jobs)


def dispatch(app: MigrationCelery, sessions: sessionmaker[Session], jobs: Jobs) -> None:
    """Publish a message for each job that is due. If that fails, the sweep publishes it."""
    with sessions.begin() as session:
        due = take_due(session, jobs.table, jobs.is_due)
    for job_id in due:
        if not publish(app, jobs.task, str(job_id)):
            return
