"""The periodic tasks that dispatch lost work again and remove old data."""

import logging
import time
from functools import partial
from itertools import chain

from celery import shared_task

from migration_service.services.access.api_keys import tell_expiring_keys
from migration_service.services.audit.chain import keep_heads, remove_days, seal_days
from migration_service.services.batches.work.feed import recover_chunks
from migration_service.services.events.history import note_progress
from migration_service.services.processing.attempts import GIVEN_AGAIN_AFTER, is_waiting, set_apart
from migration_service.services.processing.signals import announce, notify
from migration_service.services.processing.slots import reconcile_slots
from migration_service.services.reporting.retention import PIECE, removals
from migration_service.tasks.accounts import publish_set
from migration_service.tasks.app import celery_app
from migration_service.tasks.batches import feed_batches
from migration_service.tasks.names import REMOVE_OLD_DATA, SWEEP_ATTEMPTS, SWEEP_BATCHES, WATCH_EVENTS

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
        app.resources.slots.release(list(chain.from_iterable(lost)))
    feed_batches(app, app.resources.Session)


@shared_task(name=WATCH_EVENTS, send_events=False)
def watch_events() -> None:
    """Notice another history of the database, and note how far the current one has come."""
    with celery_app().resources.Session.begin() as session:
        note_progress(session)


@shared_task(name=REMOVE_OLD_DATA, send_events=False)
def remove_old_data() -> None:
    """Seal the days of the audit, tell of keys that expire, and remove data at the end of its retention.

    `services.reporting.retention` has the removals.
    """
    app = celery_app()
    until = time.monotonic() + REMOVAL_SECONDS
    with app.resources.Session.begin() as session:
        sealed = seal_days(session)
        remove_days(session, after_days=app.settings.audit_retention_days)
        tell_expiring_keys(session)
    # Outside of the database, where nobody who took it over can change them.
    for day, head in sealed.items():
        logger.info("The audit is sealed up to %s. Its head is %s", day, head)
    if sealed and app.settings.audit_head_file:
        keep_heads(app.settings.audit_head_file, sealed)
    for remove in removals(app.settings):
        removed = PIECE
        while removed == PIECE and time.monotonic() < until:
            with app.resources.Session.begin() as session:
                removed = remove(session)


@shared_task(name=SWEEP_ATTEMPTS, send_events=False)
def sweep_attempts() -> None:
    """Give attempts that no worker is running to the workers again, and reconcile the slots.

    Attempts out of tries fail.
    """
    app = celery_app()
    resources = app.resources
    with resources.Session.begin() as session:
        lost = set_apart(session, age=GIVEN_AGAIN_AFTER)
        has_waiting = is_waiting(session)
    for attempt_id in lost.waiting:
        logger.warning("Attempt %s was lost before a worker finished it, and is given out again", attempt_id)
    notify(resources.redis, resources.slots, dict.fromkeys(it.attempt.id for it in lost.exhausted))
    if has_waiting:
        announce(resources.redis, partial(publish_set, app))
    with resources.Session.begin() as session:
        reconcile_slots(session, resources.slots)
