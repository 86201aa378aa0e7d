"""The tasks behind the process endpoint, which create accounts: waiting ones as a set, others alone."""

import logging
from collections import Counter
from collections.abc import Sequence
from functools import partial
from uuid import UUID

from celery import Task, shared_task

from migration_service.log import request_id
from migration_service.services.processing.execution import (
    PerformedSet,
    give_up_attempt,
    perform_alone,
    perform_set,
)
from migration_service.services.processing.signals import announce, notify, notify_all, take_announcement
from migration_service.tasks.app import MigrationCelery, celery_app
from migration_service.tasks.names import CREATE_SET
from migration_service.tasks.publishing import publish

logger = logging.getLogger(__name__)


@shared_task(name=CREATE_SET, bind=True, soft_time_limit=25, time_limit=30)
def create_set(task: "Task[[], str]") -> str:
    """Create the accounts of waiting attempts, notify their requests, and release their slots.

    Flower and the log show the result: the number of attempts, and their outcomes.
    """
    app = celery_app()
    resources = app.resources
    take_announcement(resources.redis)
    more = partial(publish_set, app)
    redelivered = bool((task.request.delivery_info or {}).get("redelivered"))
    done = perform_set(resources.Session, resources.redis, publish=more, redelivered=redelivered)
    numbers = {ended.attempt.id: ended.service_account_number for ended in done.ended}
    notify_all(resources.redis, resources.slots, numbers)
    give_up_attempts(app, done.apart.exhausted)
    alone = []
    for performed in perform_alone(resources.Session, resources.redis, publish=more):
        notify(resources.redis, resources.slots, performed.id, performed.service_account_number)
        alone.append(performed.outcome)
    return _log_set(done, alone)


def give_up_attempts(celery: MigrationCelery, attempt_ids: Sequence[UUID]) -> None:
    """End attempts that are out of tries, notify the waiting requests, and release the slots."""
    resources = celery.resources
    for attempt_id in attempt_ids:
        give_up_attempt(resources.Session, attempt_id)
        notify(resources.redis, resources.slots, attempt_id)


def announce_attempts(celery: MigrationCelery) -> None:
    """Tell the workers that attempts are waiting, unless such a message is already on its way."""
    announce(celery.resources.redis, partial(publish_set, celery))


def publish_set(celery: MigrationCelery) -> bool:
    """Publish the message that attempts are waiting. For the log, it has the id of the announcing request."""
    return publish(celery, CREATE_SET, request_id=request_id.get(), tells=False)


def _log_set(done: PerformedSet, alone: Sequence[str]) -> str:
    """Log a line for each account of the set, with the id of its request. Return the result."""
    for ended in done.ended:
        attempt = ended.attempt
        logger.info(
            "Attempt %s %s, in a set of %d",
            attempt.id,
            ended.outcome,
            len(done.ended),
            extra={"attempt_id": str(attempt.id), "outcome": ended.outcome, "request_id": attempt.request_id},
        )
    outcomes = Counter({"SUCCEEDED": len(done.ended), "set apart, to run alone": len(done.apart.waiting)})
    parts = [f"{number} {outcome}" for outcome, number in outcomes.items() if number]
    parts += [f"{number} alone: {outcome}" for outcome, number in Counter(alone).items()]
    count = len(done.ended) + len(done.apart.waiting) + len(alone)
    accounts = "1 account" if count == 1 else f"{count} accounts"
    return f"{accounts}: {', '.join(parts)}" if count else "nothing to do"
