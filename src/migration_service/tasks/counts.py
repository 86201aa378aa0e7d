"""Counts accounts and attempts for the metrics, so that requests to /metrics need not."""

import time

from celery import shared_task

from migration_service.metrics.shared import is_resting, keep_counts
from migration_service.services.reporting.counts import count_accounts
from migration_service.tasks.app import celery_app
from migration_service.tasks.names import COUNT_ACCOUNTS, COUNT_INTERVAL

#: The part of the time that may be spent on counting. A large table is counted less often.
_SHARE = 0.05


@shared_task(name=COUNT_ACCOUNTS, send_events=False)
def count_accounts_for_metrics() -> None:
    """Count accounts and attempts in the database, and keep the result for /metrics."""
    resources = celery_app().resources
    if is_resting(resources.redis):
        return
    started = time.monotonic()
    with resources.Session.begin() as session:
        counts = count_accounts(session)
    rest = (time.monotonic() - started) / _SHARE - COUNT_INTERVAL
    keep_counts(resources.redis, counts | {"counted_at": time.time()}, rest_seconds=rest)
