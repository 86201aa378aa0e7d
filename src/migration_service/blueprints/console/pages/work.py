"""Work in progress, the slots and the queues. The workers of the queues are on the page of health."""

from contextlib import suppress

from flask import Blueprint, Response
from redis import RedisError

from migration_service.blueprints.console.polling import BUSY, page
from migration_service.blueprints.requests.resources import resources
from migration_service.metrics.broker import read_broker
from migration_service.origin import current_origin
from migration_service.services.processing.slots import Slots
from migration_service.services.reporting.counts import (
    list_running_chunks,
    list_running_requests,
    read_in_progress,
)
from migration_service.tasks.names import KEY_PREFIX, QUEUES

blueprint = Blueprint("work", __name__, url_prefix="/work")


@blueprint.get("/")
def show() -> Response:
    """Show the work in progress by age, and how full the slots and the queues are."""
    ids, redis = current_origin().import_supplier_ids, resources().redis
    with resources().Session.begin() as session:
        progress = read_in_progress(session)
        requests = list_running_requests(session, import_supplier_ids=ids)
        chunks = list_running_chunks(session, import_supplier_ids=ids)
    in_use = sweep_age = messages = None
    with suppress(RedisError):  # the page says that it does not answer
        messages = read_broker(redis, QUEUES, KEY_PREFIX)
        in_use, sweep_age = Slots(redis).in_use(), Slots(redis).seconds_since_reconcile()
    return page(
        "work.html",
        poll=BUSY,
        progress=progress,
        in_use=in_use,
        sweep_age=sweep_age,
        requests=requests,
        chunks=chunks,
        queues=QUEUES,
        messages=messages,
    )
