"""Work in progress, the slots, the queues, and the workers of each queue from their last answer.

An answer of the workers takes a second, because their number is unknown. A thread therefore waits for it, at
most once every few seconds for all open pages, and Redis stores it for all web processes.
"""

import json
import logging
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from threading import Thread
from typing import cast

from flask import Blueprint, Response
from kombu.exceptions import OperationalError as BrokerError
from redis import RedisError

from migration_service.blueprints.console.polling import BUSY, page
from migration_service.blueprints.requests.resources import Resources, resources
from migration_service.doctor.work_checks import list_workers
from migration_service.metrics.broker import BrokerCounts, read_broker
from migration_service.origin import current_origin
from migration_service.services.processing.slots import Slots
from migration_service.services.reporting.counts import read_in_progress
from migration_service.services.reporting.work import list_running_chunks, list_running_requests
from migration_service.tasks.names import KEY_PREFIX, QUEUES

blueprint = Blueprint("work", __name__, url_prefix="/work")
logger = logging.getLogger(__name__)

_ANSWER, ASKED = "migration:console:workers", "migration:console:workers:asked"
#: Seconds between two questions, and seconds after which an answer is no longer shown.
_INTERVAL, _OLDEST = 15, 120
#: Seconds for which workers may answer.
_TIMEOUT = 1.0


@blueprint.get("/")
def show() -> Response:
    """Show the work in progress by age, and how full the slots and the queues are."""
    ids = current_origin().import_supplier_ids
    with resources().Session.begin() as session:
        progress = read_in_progress(session)
        requests = list_running_requests(session, import_supplier_ids=ids)
        chunks = list_running_chunks(session, import_supplier_ids=ids)
    in_use, sweep_age = _read_slots()
    return page(
        "work.html",
        poll=BUSY,
        progress=progress,
        in_use=in_use,
        sweep_age=sweep_age,
        requests=requests,
        chunks=chunks,
        queues=QUEUES,
        messages=_read_messages(),
        workers=_read_workers(),
    )


def _read_slots() -> tuple[int | None, float | None]:
    try:
        slots = Slots(resources().redis)
        return slots.in_use(), slots.seconds_since_reconcile()
    except RedisError:
        return None, None


def _read_messages() -> BrokerCounts | None:
    """Return how many messages wait, or None if Redis does not answer."""
    try:
        return read_broker(resources().redis, QUEUES, KEY_PREFIX)
    except RedisError:
        return None


@dataclass(frozen=True, slots=True)
class _WorkersOfQueues:
    """The names of the workers of each queue."""

    by_queue: dict[str, list[str]]
    answered_at: datetime


def _read_workers() -> _WorkersOfQueues | None:
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
    return _WorkersOfQueues(kept["by_queue"], datetime.fromtimestamp(kept["answered_at"], UTC))


def _ask(shared: Resources) -> None:
    try:
        answer = {"by_queue": list_workers(shared.celery, _TIMEOUT), "answered_at": time.time()}
        shared.redis.set(_ANSWER, json.dumps(answer), ex=_OLDEST)
    except (BrokerError, RedisError, OSError) as error:
        logger.warning("The workers could not be asked: %s", type(error).__name__)
