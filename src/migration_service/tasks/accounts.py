"""Creating accounts: the task behind the process endpoint."""

import logging
from dataclasses import dataclass
from uuid import UUID

from celery import Task, shared_task
from redis import RedisError
from sqlalchemy.exc import DBAPIError

from migration_service.db.statements import begin
from migration_service.errors import AccountCreationFailedError, ServiceError
from migration_service.services.processing.attempts import (
    MAX_TRIES,
    count_redelivery,
    fail_attempt,
    run_attempt,
)
from migration_service.services.processing.creation import explain_refusal
from migration_service.states import Outcome
from migration_service.tasks.app import WorkerResources, celery_app

logger = logging.getLogger(__name__)

CREATE_ACCOUNT = "accounts.create_account"
#: A bell is a list with one element, there for as long as anybody could be waiting.
BELL_SECONDS = 60
#: What a bell is rung with where the database has more to say than a service account number.
LOOK = "look"


@dataclass(frozen=True, slots=True)
class PerformedAttempt:
    """How an attempt ended that was performed just now, and is committed."""

    #: `SUCCEEDED`, or the code of the failure.
    outcome: str
    service_account_number: str | None = None


def bell(attempt_id: UUID | str) -> str:
    """The Redis list that wakes the request waiting for an attempt."""
    return f"migration:bell:{attempt_id}"


@shared_task(name=CREATE_ACCOUNT, bind=True, soft_time_limit=25, time_limit=30)
def create_account(task: "Task[[str], str]", attempt_id: str) -> str:
    """Create the account of an attempt, tell whoever waits, and free its slot.

    Nobody fetches the result: it is what Flower and the log show of the task.
    """
    resources = celery_app().resources
    if (task.request.delivery_info or {}).get("redelivered"):
        # The worker that had it died of it, maybe: it counts before it is tried again.
        with resources.Session.begin() as session:
            hopeless = count_redelivery(session, UUID(attempt_id))
        if hopeless:
            give_up_attempt(resources, UUID(attempt_id))
            return AccountCreationFailedError.code
    performed = perform_attempt(resources, UUID(attempt_id))
    if performed is None:
        return "nothing to do"
    ring_bell(resources, attempt_id, performed.service_account_number or LOOK)
    return performed.outcome


def perform_attempt(resources: WorkerResources, attempt_id: UUID) -> PerformedAttempt | None:
    """Run an attempt to its end; None where there was nothing to do.

    What is wrong with the account ends the attempt. What is wrong with the world (the database went away)
    is raised and leaves it in progress: the sweep publishes it again.
    """
    try:
        with begin(resources.Session) as transaction:
            number = run_attempt(transaction, attempt_id)
        return PerformedAttempt(Outcome.SUCCEEDED, number) if number else None
    except ServiceError as error:
        failure = error
    except DBAPIError as error:
        refused = explain_refusal(error)
        if refused is None:
            raise
        failure = refused
    with resources.Session.begin() as session:
        failed = fail_attempt(session, attempt_id, failure)
    return PerformedAttempt(failure.code) if failed else None


def give_up_attempt(resources: WorkerResources, attempt_id: UUID) -> None:
    """End an attempt that is out of tries, and tell whoever waits."""
    failure = AccountCreationFailedError(f"Given up after {MAX_TRIES} tries: no worker survived it.")
    with resources.Session.begin() as session:
        fail_attempt(session, attempt_id, failure)
    ring_bell(resources, str(attempt_id))


def ring_bell(resources: WorkerResources, attempt_id: str, rung_with: str = LOOK) -> None:
    """Free the slot and wake the waiting request. Without Redis both happen a little later by themselves.

    Only ever after the commit: `rung_with` may be the service account number that was committed.
    """
    try:
        with resources.redis.pipeline(transaction=False) as pipeline:
            resources.slots.add_release(pipeline, [attempt_id])
            pipeline.rpush(bell(attempt_id), rung_with)
            pipeline.expire(bell(attempt_id), BELL_SECONDS)
            pipeline.execute()
    except RedisError as error:
        logger.warning("Redis is away: attempt %s is done, nobody was told: %s", attempt_id, error)
