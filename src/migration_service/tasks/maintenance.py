"""The periodic tasks that dispatch lost work again and remove old data."""

import logging
import time
from itertools import chain

from celery import shared_task

from migration_service.services.audit.chain import remove_days, seal_days
from migration_service.services.batches.work.feed import recover_chunks
from migration_service.services.processing.attempts import GIVEN_AGAIN_AFTER, is_waiting, set_apart
from migration_service.services.processing.slot_leases import reconcile_slots, release_slots
from migration_service.services.reporting.retention import PIECE, removals
from migration_service.tasks.accounts import announce_attempts, give_up_attempts
from migration_service.tasks.app import celery_app
from migration_service.tasks.batches import feed_batches
from migration_service.tasks.names import REMOVE_OLD_DATA, SWEEP_ATTEMPTS, SWEEP_BATCHES

logger = logging.getLogger(__name__)

#: Seconds after which a removal leaves the rest to the next run.
REMOVAL_SECONDS = 20.0


@shared_task(name=SWEEP_BATCHES, send_events=False)
def sweep_batches() -> None:
    """Release chunks whose worker was lost, and dispatch those that are next."""
    app = celery_app()
    with app.resources.Session.begin() as session:
        lost = recover_chunks(session)
    if lost:
        logger.warning(
            "%d chunks of batches were lost before a worker finished them, and are dispatched again",
            len(lost),
        )
        release_slots(app.resources.slots, list(chain.from_iterable(lost)))
    feed_batches(app, app.resources.Session)


@shared_task(name=REMOVE_OLD_DATA, send_events=False)
def remove_old_data() -> None:
    """Seal the days of the audit, and remove data at the end of its retention period.

    `services.reporting.retention` has the removals.
    """
    app = celery_app()
    until = time.monotonic() + REMOVAL_SECONDS
    with app.resources.Session.begin() as session:
        sealed = seal_days(session)
        remove_days(session, after_days=app.settings.audit_retention_days)
    if sealed:
        logger.info("The audit is sealed up to %s", max(sealed))
    for remove in removals(app.settings):
        removed = PIECE
        while removed == PIECE and time.monotonic() < until:
            with app.resources.Session.begin() as session:
                removed = remove(session)


@shared_task(name=SWEEP_ATTEMPTS, send_events=False)
def sweep_attempts() -> None:
    """Give attempts that no worker is running to the workers again, and reconcile the slots.

    Attempts out of tries are given up.
    """
    app = celery_app()
    resources = app.resources
    with resources.Session.begin() as session:
        lost = set_apart(session, age=GIVEN_AGAIN_AFTER)
        has_waiting = is_waiting(session)
    for attempt_id in lost.waiting:
        logger.warning("Attempt %s was lost before a worker finished it, and is given out again", attempt_id)
    give_up_attempts(app, lost.exhausted)
    if has_waiting:
        announce_attempts(app)
    with resources.Session.begin() as session:
        reconcile_slots(session, resources.slots)
