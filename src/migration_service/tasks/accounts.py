"""The tasks behind the process endpoint, which create accounts: waiting ones as a set, others alone."""

import logging
from collections import Counter
from functools import partial

from celery import Task, shared_task

from migration_service.log import request_id
from migration_service.services.imports.states import EndedAttempt
from migration_service.services.processing.execution import perform_alone, perform_set
from migration_service.services.processing.signals import notify, take_announcement
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
    ended, apart = perform_set(resources.Session, resources.redis, publish=more, redelivered=redelivered)
    numbers = {it.attempt.id: it.service_account_number for it in ended}
    notify(resources.redis, resources.slots, numbers | dict.fromkeys(it.attempt.id for it in apart.exhausted))
    for it in ended:
        _log(it, f"in a set of {len(ended)}")
    outcomes = ["SUCCEEDED"] * len(ended) + ["set apart, to run alone"] * len(apart.waiting)
    alone = perform_alone(resources.Session, resources.redis, publish=more) if apart.others_may_wait else ()
    for it in alone:
        notify(resources.redis, resources.slots, {it.attempt.id: it.service_account_number})
        _log(it, "alone")
        outcomes.append(f"alone: {it.error.code if it.error else it.outcome}")
    accounts = "1 account" if len(outcomes) == 1 else f"{len(outcomes)} accounts"
    counts = ", ".join(f"{count} {outcome}" for outcome, count in Counter(outcomes).items())
    return f"{accounts}: {counts}" if outcomes else "nothing to do"


def _log(ended: EndedAttempt, how: str) -> None:
    attempt = ended.attempt
    told = {"attempt_id": str(attempt.id), "outcome": ended.outcome, "request_id": attempt.request_id}
    logger.info("Attempt %s %s, %s", attempt.id, ended.outcome, how, extra=told)


def publish_set(celery: MigrationCelery) -> bool:
    """Publish the message that attempts are waiting. For the log, it has the id of the announcing request."""
    return publish(celery, CREATE_SET, request_id=request_id.get(), tells=False)
