"""The workers of each queue, from their last answer.

An answer takes a second, because the number of workers is unknown. A thread therefore waits for it, at most
once every few seconds for all open pages, and Redis stores it for all web processes.
"""

import json
import logging
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from threading import Thread
from typing import cast

from kombu.exceptions import OperationalError as BrokerError
from redis import RedisError

from migration_service.blueprints.requests.resources import Resources, resources
from migration_service.doctor.work_checks import list_workers

logger = logging.getLogger(__name__)

_ANSWER, ASKED = "migration:console:workers", "migration:console:workers:asked"
#: Seconds between two questions, and seconds after which an answer is no longer shown.
_INTERVAL, _OLDEST = 15, 120
#: Seconds for which workers may answer.
_TIMEOUT = 1.0


@dataclass(frozen=True, slots=True)
class WorkersOfQueues:
    """The names of the workers of each queue."""

    by_queue: dict[str, list[str]]
    answered_at: datetime


def read_workers() -> WorkersOfQueues | None:
    """Return the last answer, or None if there is none, and ask the workers again if it is old."""
    shared = resources()
    try:
        stored = cast(bytes | None, shared.redis.get(_ANSWER))
        if shared.redis.set(ASKED, b"1", nx=True, ex=_INTERVAL):
            Thread(target=_ask, args=(shared,), name="ask-workers", daemon=True).start()
    except RedisError:
        return None
    if stored is None:
        return None
    kept = json.loads(stored)
    return WorkersOfQueues(kept["by_queue"], datetime.fromtimestamp(kept["answered_at"], UTC))


def _ask(shared: Resources) -> None:
    try:
        answer = {"by_queue": list_workers(shared.celery, _TIMEOUT), "answered_at": time.time()}
        shared.redis.set(_ANSWER, json.dumps(answer), ex=_OLDEST)
    except (BrokerError, RedisError, OSError) as error:
        logger.warning("The workers could not be asked: %s", type(error).__name__)
