"""The tasks behind the process endpoint, which create accounts: those that wait as a set, others alone."""

import logging
from functools import partial
from typing import Any
from uuid import UUID

from celery import Task, shared_task

from migration_service.log import request_id
from migration_service.services.processing.announcement import announce, find_new, take_announcement
from migration_service.services.processing.execution import PerformedSet, perform_attempt, perform_set
from migration_service.services.processing.notification import notify, notify_all
from migration_service.tasks.app import MigrationCelery, celery_app
from migration_service.tasks.names import CREATE_ACCOUNT, CREATE_SET
from migration_service.tasks.publishing import publish

logger = logging.getLogger(__name__)


@shared_task(name=CREATE_SET, bind=True, soft_time_limit=25, time_limit=30)
def create_set(task: "Task[[], str]") -> str:
    """Create the accounts of the attempts that wait, notify their requests, and release their slots.

    Flower and the log show the result: how many attempts there were, and how they ended.
    """
    app = celery_app()
    resources = app.resources
    take_announcement(resources.redis)
    more = partial(announce, resources.redis, partial(publish_set, app))
    new = partial(find_new, resources.redis)
    done = perform_set(resources.Session, redelivered=_is_redelivered(task), announce=more, find_new=new)
    numbers = {ended.attempt.id: ended.service_account_number for ended in done.ended}
    notify_all(resources.redis, resources.slots, numbers)
    for attempt_id in done.apart:
        publish_attempt(app, attempt_id)
    return _log_set(done)


@shared_task(name=CREATE_ACCOUNT, bind=True, soft_time_limit=25, time_limit=30)
def create_account(task: "Task[[str], str]", attempt_id: str) -> str:
    """Create the account of an attempt that runs alone, notify the waiting request, and release the slot.

    Flower and the log show the result.
    """
    resources = celery_app().resources
    performed = perform_attempt(resources.Session, UUID(attempt_id), redelivered=_is_redelivered(task))
    if performed is None:
        return "nothing to do"
    notify(resources.redis, resources.slots, UUID(attempt_id), performed.service_account_number)
    return performed.outcome


def publish_set(celery: MigrationCelery) -> bool:
    """Publish the message that attempts wait, with the id of the request that announced them for the log."""
    return publish(celery, CREATE_SET, request_id=request_id.get(), tells=False)


def publish_attempt(celery: MigrationCelery, attempt_id: UUID) -> bool:
    """Publish the message of an attempt, with the id of the request for the worker's log."""
    return publish(celery, CREATE_ACCOUNT, str(attempt_id), request_id=request_id.get())


def _is_redelivered(task: "Task[Any, str]") -> bool:
    return bool((task.request.delivery_info or {}).get("redelivered"))


def _log_set(done: PerformedSet) -> str:
    """Log a line for each account, with the id of its own request. Return the result of the set."""
    for ended in done.ended:
        attempt = ended.attempt
        logger.info(
            "Attempt %s %s, in a set of %d",
            attempt.id,
            ended.outcome,
            len(done.ended),
            extra={"attempt_id": str(attempt.id), "outcome": ended.outcome, "request_id": attempt.request_id},
        )
    parts = [f"{len(done.ended)} SUCCEEDED"] if done.ended else []
    parts += [f"{len(done.apart)} set apart, to run alone"] if done.apart else []
    count = len(done.ended) + len(done.apart)
    accounts = "1 account" if count == 1 else f"{count} accounts"
    return f"{accounts}: {', '.join(parts)}" if count else "nothing to do"
