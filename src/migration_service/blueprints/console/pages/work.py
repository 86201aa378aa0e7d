"""Work in progress, the slots and the queues. The workers of the queues are on the page of health."""

from flask import Blueprint, Response
from redis import RedisError

from migration_service.blueprints.console.polling import BUSY, page
from migration_service.blueprints.requests.resources import resources
from migration_service.metrics.broker import BrokerCounts, read_broker
from migration_service.origin import current_origin
from migration_service.services.processing.slots import Slots
from migration_service.services.reporting.counts import read_in_progress
from migration_service.services.reporting.work import list_running_chunks, list_running_requests
from migration_service.tasks.names import KEY_PREFIX, QUEUES

blueprint = Blueprint("work", __name__, url_prefix="/work")


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
