"""Creating accounts: the task behind the process endpoint."""

import logging
from uuid import UUID

from celery import Task, shared_task
from redis import RedisError
from sqlalchemy.exc import DBAPIError

from migration_service.errors import AccountCreationFailedError, ServiceError
from migration_service.models import Outcome
from migration_service.services.attempts import MAX_TRIES, count_redelivery, fail_attempt, run_attempt
from migration_service.services.creation import explain_refusal
from migration_service.tasks.app import WorkerResources, celery_app

logger = logging.getLogger(__name__)

CREATE_ACCOUNT = "accounts.create_account"
#: A bell is a list with one element, there for as long as anybody could be waiting.
BELL_SECONDS = 60


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
    outcome = perform_attempt(resources, UUID(attempt_id))
    if outcome is None:
        return "nothing to do"
    ring_bell(resources, attempt_id)
    return outcome


def perform_attempt(resources: WorkerResources, attempt_id: UUID) -> str | None:
    """Run an attempt to its end: `SUCCEEDED`, the code of its failure, or None: there was nothing to do.

    What is wrong with the account ends the attempt. What is wrong with the world (the database went away)
    is raised and leaves it in progress: the sweep publishes it again.
    """
    try:
        with resources.Session.begin() as session:
            return Outcome.SUCCEEDED if run_attempt(session, attempt_id) else None
    except ServiceError as error:
        failure = error
    except DBAPIError as error:
        refused = explain_refusal(error)
        if refused is None:
            raise
        failure = refused
    with resources.Session.begin() as session:
        failed = fail_attempt(session, attempt_id, failure)
    return failure.code if failed else None


def give_up_attempt(resources: WorkerResources, attempt_id: UUID) -> None:
    """End an attempt that is out of tries, and tell whoever waits."""
    failure = AccountCreationFailedError(f"Given up after {MAX_TRIES} tries: no worker survived it.")
    with resources.Session.begin() as session:
        fail_attempt(session, attempt_id, failure)
    ring_bell(resources, str(attempt_id))


def ring_bell(resources: WorkerResources, attempt_id: str) -> None:
    """Wake the waiting request and free the slot. Without Redis both happen a little later by themselves."""
    try:
        with resources.redis.pipeline() as pipeline:
            pipeline.rpush(bell(attempt_id), b"1")
            pipeline.expire(bell(attempt_id), BELL_SECONDS)
            pipeline.execute()
        resources.slots.release([attempt_id])
    except RedisError as error:
        logger.warning("Redis is away: attempt %s is done, nobody was told: %s", attempt_id, error)
