"""Logging every task in one line when it ends, and recording its time for the metrics."""

import logging
import time
from typing import Any

from celery.signals import task_postrun, task_prerun

from migration_service.connections import log_if_unavailable
from migration_service.log import request_id
from migration_service.metrics.shared import add_task_time
from migration_service.tasks.app import celery_app

logger = logging.getLogger(__name__)


@task_prerun.connect
def _begin(task: Any, **_kwargs: Any) -> None:
    request_id.set(getattr(task.request, "request_id", None))
    task.request.began_at = time.monotonic()
    task.request.waited = _measure_wait(task.request)


def _measure_wait(request: Any) -> float | None:
    """Return the seconds that the message of a task was in its queue, or None if unknown.

    It may have been published on another machine, whose clock may be ahead. A redelivered message was with a
    worker in between.
    """
    published_at = getattr(request, "published_at", None)
    if published_at is None or (request.delivery_info or {}).get("redelivered"):
        return None
    return max(0.0, time.time() - float(published_at))


@task_postrun.connect
def _end(task: Any, task_id: str, state: str | None, retval: object, **_kwargs: Any) -> None:
    seconds = time.monotonic() - task.request.began_at
    milliseconds = round(seconds * 1000, 1)
    # An error is logged separately. The result of a task is a word or None.
    outcome = retval if state == "SUCCESS" and isinstance(retval, str) else state
    # A periodic task, and one that found nothing to do, is logged only if it failed.
    scheduled = {entry["task"] for entry in celery_app().conf.beat_schedule.values()}
    quiet = state == "SUCCESS" and (task.name in scheduled or str(retval).startswith("nothing "))
    logger.log(
        logging.DEBUG if quiet else logging.INFO,
        "%s %s in %.0f ms",
        task.name,
        outcome,
        milliseconds,
        extra={
            "task": task.name,
            "task_id": task_id,
            "state": state,
            "outcome": outcome,
            "duration_ms": milliseconds,
        },
    )
    queue = str((task.request.delivery_info or {}).get("routing_key", ""))
    with log_if_unavailable("the time of a task was not counted"):
        redis = celery_app().resources.redis
        add_task_time(redis, task.name, str(state), seconds, queue=queue, waited=task.request.waited)
    request_id.set(None)
