"""Counting accounts and attempts for the metrics and for the quota, so that no request has to."""

import time

from celery import shared_task

from migration_service.metrics.shared import is_resting, keep_counts
from migration_service.services.imports.quota import find_full_organisations, note_full_organisations
from migration_service.services.reporting.counts import count_accounts
from migration_service.tasks.app import celery_app
from migration_service.tasks.names import COUNT_ACCOUNTS, COUNT_INTERVAL

#: The largest share of time for counting. A large table is counted less often.
_SHARE = 0.05


@shared_task(name=COUNT_ACCOUNTS, send_events=False)
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
    rest = (time.monotonic() - started) / _SHARE - COUNT_INTERVAL
    keep_counts(resources.redis, counts | {"counted_at": time.time()}, rest_seconds=rest)
