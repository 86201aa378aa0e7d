"""The only place that publishes messages."""

import logging

from kombu.exceptions import OperationalError
from redis import RedisError

from migration_service.tasks.app import MigrationCelery

logger = logging.getLogger(__name__)


def publish(
    celery: MigrationCelery,
    task: str,
    *args: object,
    request_id: str | None = None,
    shown: str | None = None,
) -> bool:
    """Publish a message that names a row. Return False, and log it, if the broker is unavailable.

    Flower and the log show `shown`, or the arguments if it is absent. PostgreSQL is the queue of record: a
    sweep publishes later what could not be published now.
    """
    headers = {"request_id": request_id} if request_id else {}
    try:
        celery.send_task(task, args=args, argsrepr=shown, retry=False, headers=headers)
    except (OperationalError, RedisError) as error:
        logger.warning("The broker is unavailable, and %s%s is published later: %s", task, args, error)
        return False
    return True
