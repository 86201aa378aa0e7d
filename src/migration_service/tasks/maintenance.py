"""The periodic tasks that dispatch lost work again, carry waves on, count, and remove old data."""

import logging
import time
from functools import partial
from itertools import chain

from celery import shared_task

from migration_service.db.holding import is_lost
from migration_service.metrics.shared import is_resting, keep_counts
from migration_service.services.access.api_keys import tell_expiring_keys
from migration_service.services.audit.chain import keep_heads, remove_days, seal_days
from migration_service.services.batches.work.feed import recover_chunks
from migration_service.services.events.history import note_progress
from migration_service.services.imports.quota import find_full_organisations, note_full_organisations
from migration_service.services.processing.attempts import GIVEN_AGAIN_AFTER, is_waiting, set_apart
from migration_service.services.processing.signals import announce, notify
from migration_service.services.processing.slots import reconcile_slots
from migration_service.services.reporting.counts import count_accounts
from migration_service.services.reporting.retention import PIECE, removals
from migration_service.services.waves.sweep import advance_plans, reconcile_waves
from migration_service.tasks import names
from migration_service.tasks.accounts import publish_set
from migration_service.tasks.app import celery_app
from migration_service.tasks.batches import feed_batches
from migration_service.tasks.deliveries import sweep_deliveries
from migration_service.tasks.jobs import sweep_jobs

logger = logging.getLogger(__name__)

#: Seconds after which a removal leaves the rest to the next run.
REMOVAL_SECONDS = 20.0
#: The largest share of time for counting. A large table is counted less often.
_COUNTING_SHARE = 0.05
#: Seconds that one sweep spends on reconciliation, while the other periodic tasks wait.
RECONCILE_SECONDS = 3.0


class SweepError(Exception):
    """Parts of a sweep failed. The log has the error of each."""


@shared_task(name=names.SWEEP, send_events=False)
def sweep() -> None:
    """Look for all kinds of work that nobody does. A kind that fails holds up no other.

    At the end raise the error of a lost database, with which the task is repeated, or else SweepError.
    """
    sessions = celery_app().resources.Session
    failed, lost = [], None
    for part in (sweep_attempts, sweep_jobs, sweep_waves, sweep_batches, sweep_deliveries):
        try:
            part()
        except Exception as error:
            if is_lost(sessions, error):
                lost = error
            else:
                logger.exception("%s failed", part.__name__)
                failed.append(part.__name__)
    if lost or failed:
        raise lost or SweepError(f"{', '.join(failed)} failed")


def sweep_waves() -> None:
    """Start, pause and resume waves by the clock, and reconcile those that have ended."""
    sessions = celery_app().resources.Session
    advance_plans(sessions)
    reconcile_waves(sessions, seconds=RECONCILE_SECONDS)


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


@shared_task(name=names.WATCH_EVENTS, send_events=False)
def watch_events() -> None:
    """Notice another history of the database, and note how far the current one has come."""
    with celery_app().resources.Session.begin() as session:
        note_progress(session)


@shared_task(name=names.COUNT_ACCOUNTS, send_events=False)
def count_accounts_for_metrics() -> None:
    """Count accounts and attempts. Store the result for /metrics, and the organisations at the quota."""
    resources = celery_app().resources
    if is_resting(resources.redis):
        return
    started = time.monotonic()
    with resources.Session.begin() as session:
        counts = count_accounts(session)
        full = find_full_organisations(session, counts["accounts"], celery_app().settings.max_staged_accounts)
    note_full_organisations(resources.redis, full)
    rest = (time.monotonic() - started) / _COUNTING_SHARE - names.COUNT_INTERVAL
    keep_counts(resources.redis, counts | {"counted_at": time.time()}, rest_seconds=rest)


@shared_task(name=names.REMOVE_OLD_DATA, send_events=False)
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
