"""The periodic task that advances wave plans."""

from celery import shared_task

from migration_service.services.waves.reconciliation import reconcile_waves
from migration_service.services.waves.sweep import advance_plans
from migration_service.tasks.app import celery_app
from migration_service.tasks.batches import feed_batches
from migration_service.tasks.names import SWEEP_WAVES

#: Seconds that one sweep spends on reconciliation, while the other periodic tasks wait.
RECONCILE_SECONDS = 3.0


@shared_task(name=SWEEP_WAVES, send_events=False)
def sweep_waves() -> None:
    """Start, pause and resume waves by the clock, reconcile those that have ended, and dispatch."""
    app = celery_app()
    sessions = app.resources.Session
    advance_plans(sessions)
    reconcile_waves(sessions, seconds=RECONCILE_SECONDS)
    feed_batches(app, sessions)
