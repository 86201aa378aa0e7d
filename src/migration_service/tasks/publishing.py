"""Publishing messages, which happens nowhere else."""

import logging
import time
from typing import Any

from kombu.exceptions import OperationalError
from redis import RedisError

from migration_service.tasks.app import MigrationCelery

logger = logging.getLogger(__name__)


class _NoEvents:
    """A replacement for Celery's dispatcher that tells Flower about sent messages."""

    def publish(self, *_args: object, **_options: object) -> None:
        """Do nothing."""


def publish(
    celery: MigrationCelery,
    task: str,
    *args: object,
    request_id: str | None = None,
    shown: str | None = None,
    tells: bool = True,
) -> bool:
    """Publish a message that names a row. If the broker is unavailable, log that and return False.

    Flower and the log show `shown`, or the arguments if it is absent. Unless it `tells`, Flower only learns
    of the task when a worker receives it, which saves a second message. PostgreSQL is the queue of record: a
    sweep later publishes messages that could not be published now.
    """
    headers: dict[str, object] = {"published_at": time.time()}
    if request_id:
        headers["request_id"] = request_id
    silent: dict[str, Any] = {} if tells else {"event_dispatcher": _NoEvents()}
    try:
        celery.send_task(task, args=args, argsrepr=shown, retry=False, headers=headers, **silent)
    except (OperationalError, RedisError) as error:
        logger.warning("The broker is unavailable, and %s%s is published later: %s", task, args, error)
        return False
    return True
