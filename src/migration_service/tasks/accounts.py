"""Creating accounts: the task behind the process endpoint."""

import logging
from uuid import UUID

from celery import shared_task
from redis import RedisError
from sqlalchemy.exc import DataError, IntegrityError

from migration_service.errors import AccountCreationFailedError, ServiceError
from migration_service.services.attempts import fail_attempt, run_attempt
from migration_service.tasks.app import WorkerResources, celery_app

logger = logging.getLogger(__name__)

CREATE_ACCOUNT = "accounts.create_account"
#: A bell is a list with one element, there for as long as anybody could be waiting.
BELL_SECONDS = 60
#: What a bell is rung with where the database has more to say than a service account number.
LOOK = "look"


def bell(attempt_id: UUID | str) -> str:
    """The Redis list that wakes the request waiting for an attempt."""
    return f"migration:bell:{attempt_id}"


@shared_task(name=CREATE_ACCOUNT, soft_time_limit=25, time_limit=30)
def create_account(attempt_id: str) -> None:
    """Create the account of an attempt, tell whoever waits, and free its slot."""
    resources = celery_app().resources
    rung_with = perform_attempt(resources, UUID(attempt_id))
    if rung_with is not None:
        ring_bell(resources, attempt_id, rung_with)


def perform_attempt(resources: WorkerResources, attempt_id: UUID) -> str | None:
    """Run an attempt to its outcome; what to ring its bell with, or None where there was nothing to do.

    What is wrong with the account ends the attempt. What is wrong with the world (the database went away)
    is raised and leaves it in progress: the sweep publishes it again.
    """
    try:
        with resources.Session.begin() as session:
            return run_attempt(session, attempt_id)
    except ServiceError as error:
        failure = error
    except (DataError, IntegrityError) as error:
        if "uq_account_service_account_number" in str(error.orig):
            raise  # one chance in a million; the next try draws another number
        logger.exception("The database refused an account; attempt %s", attempt_id)
        failure = AccountCreationFailedError("The database refused a value of the account.")
    with resources.Session.begin() as session:
        return LOOK if fail_attempt(session, attempt_id, failure) else None


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
