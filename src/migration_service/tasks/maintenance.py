"""What runs every few seconds so that nothing that was accepted stays undone."""

import logging
import time

from celery import shared_task

from migration_service.services.access.audit_chain import remove_days, seal_days
from migration_service.services.access.sessions import remove_old_sessions
from migration_service.services.batches.feed import recover_chunks
from migration_service.services.processing.attempts import redispatch_attempts
from migration_service.services.processing.slot_upkeep import reconcile_slots
from migration_service.services.reporting.retention import PIECE, remove_batch_lines, remove_payloads
from migration_service.tasks.accounts import give_up_attempt
from migration_service.tasks.app import celery_app
from migration_service.tasks.batches import feed_batches
from migration_service.tasks.dispatch import publish_attempt

logger = logging.getLogger(__name__)

SWEEP_ATTEMPTS = "maintenance.sweep_attempts"
SWEEP_BATCHES = "maintenance.sweep_batches"
REMOVE_OLD_DATA = "maintenance.remove_old_data"
#: How long one removal goes on before it leaves the rest to the next one, in seconds.
REMOVAL_PATIENCE = 20.0


@shared_task(name=SWEEP_BATCHES)
def sweep_batches() -> None:
    """Give chunks back whose worker was lost, and publish those that are next."""
    app = celery_app()
    with app.resources.Session.begin() as session:
        lost = recover_chunks(session)
    if lost:
        logger.warning("%d chunks of batches were lost on their way and are published again", lost)
    feed_batches(app, app.resources.Session)


@shared_task(name=REMOVE_OLD_DATA)
def remove_old_data() -> None:
    """Seal the days of the audit, and remove what has been kept long enough."""
    app = celery_app()
    until = time.monotonic() + REMOVAL_PATIENCE
    with app.resources.Session.begin() as session:
        sealed = seal_days(session)
        remove_days(session, after_days=app.settings.audit_retention_days)
    if sealed:
        logger.info("The audit is sealed up to %s", max(sealed))
    with app.resources.Session.begin() as session:
        remove_old_sessions(session, limit=PIECE)
    removed = PIECE
    while removed == PIECE and time.monotonic() < until:
        with app.resources.Session.begin() as session:
            removed = remove_batch_lines(session, after_days=app.settings.batch_retention_days)
    removed = PIECE if app.settings.payload_retention_days else 0
    while removed == PIECE and time.monotonic() < until:
        with app.resources.Session.begin() as session:
            removed = remove_payloads(session, after_days=app.settings.payload_retention_days)


@shared_task(name=SWEEP_ATTEMPTS)
def sweep_attempts() -> None:
    """Publish attempts again that nobody works on, give up on hopeless ones, and check the slots."""
    app = celery_app()
    with app.resources.Session.begin() as session:
        again, hopeless = redispatch_attempts(session)
    for attempt_id in again:
        logger.warning("Attempt %s was lost on its way and is published again", attempt_id)
        publish_attempt(app, attempt_id)
    for attempt_id in hopeless:
        give_up_attempt(app.resources, attempt_id)
    with app.resources.Session.begin() as session:
        reconcile_slots(session, app.resources.slots)
