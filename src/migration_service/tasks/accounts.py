"""The task behind the process endpoint, which creates accounts."""

from uuid import UUID

from celery import Task, shared_task

from migration_service.log import request_id
from migration_service.services.processing.execution import perform_attempt
from migration_service.services.processing.notification import notify
from migration_service.tasks.app import MigrationCelery, celery_app
from migration_service.tasks.publishing import publish

CREATE_ACCOUNT = "accounts.create_account"


@shared_task(name=CREATE_ACCOUNT, bind=True, soft_time_limit=25, time_limit=30)
def create_account(task: "Task[[str], str]", attempt_id: str) -> str:
    """Create the account of an attempt, notify the waiting request, and release the slot.

    Flower and the log show the result.
    """
    resources = celery_app().resources
    redelivered = bool((task.request.delivery_info or {}).get("redelivered"))
    performed = perform_attempt(resources.Session, UUID(attempt_id), redelivered=redelivered)
    if performed is None:
        return "nothing to do"
    notify(resources.redis, resources.slots, UUID(attempt_id), performed.service_account_number)
    return performed.outcome


def publish_attempt(celery: MigrationCelery, attempt_id: UUID) -> bool:
    """Publish the message of an attempt, with the id of the request for the worker's log."""
    return publish(celery, CREATE_ACCOUNT, str(attempt_id), request_id=request_id.get())
