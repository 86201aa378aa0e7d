"""Numbers of accounts by state, counted now, or by the workers if there are many accounts."""

import json
import time
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any, cast
from zoneinfo import ZoneInfo

from redis import RedisError
from sqlalchemy import text
from sqlalchemy.orm import Session

from migration_service.blueprints.requests.resources import resources
from migration_service.metrics.shared import read_counts
from migration_service.services.reporting.history import CreatedOnDay, count_created_by_day
from migration_service.services.reporting.import_suppliers import count_states
from migration_service.states import ImportState

#: With this many accounts or more, a page does not count them itself.
MANY = 100_000
#: Older counts of the workers are not shown.
_OLDEST = 600.0
_DAYS = 30
#: Seconds for which the counts of accounts per day are cached.
_KEPT = 60
_ROWS = text("SELECT reltuples FROM pg_class WHERE oid = 'account_import_process'::regclass")


@dataclass(frozen=True, slots=True)
class StateCounts:
    """The number of accounts in each state, by supplier code."""

    counts: dict[str, dict[str, int]]
    #: When they were counted, or None if just now.
    counted_at: datetime | None


def count_accounts_by_state(session: Session, suppliers: Collection[tuple[int, str]]) -> StateCounts:
    """Return the counts of these suppliers, given by id and code."""
    kept = _read_kept() if float(session.execute(_ROWS).scalar_one()) > MANY else None
    if kept is None:
        by_id = count_states(session, [pk for pk, _ in suppliers])
        return StateCounts({code: by_id[pk] for pk, code in suppliers}, None)
    counts = {code: dict.fromkeys(map(str, ImportState), 0) for _, code in suppliers}
    for code, state, number in kept["accounts"]:
        if code in counts:
            counts[code][state] = number
    return StateCounts(counts, datetime.fromtimestamp(kept["counted_at"], UTC))


def created_by_day(session: Session, import_supplier_id: int) -> list[CreatedOnDay]:
    """Return the number of a supplier's accounts created on each of the last days, cached for a minute."""
    shared = resources()
    zone = ZoneInfo(shared.settings.console_time_zone)
    key = f"migration:console:created:{import_supplier_id}"
    try:
        kept = cast(bytes | None, shared.redis.get(key))
    except RedisError:
        return count_created_by_day(session, import_supplier_id, days=_DAYS, zone=zone)
    if kept:
        return [CreatedOnDay(date.fromisoformat(day), n) for day, n in json.loads(kept)]
    counted = count_created_by_day(session, import_supplier_id, days=_DAYS, zone=zone)
    with suppress(RedisError):  # Redis may be full, and the page is complete without it
        shared.redis.set(key, json.dumps([[day.isoformat(), n] for day, n in counted]), ex=_KEPT)
    return counted


def _read_kept() -> dict[str, Any] | None:
    try:
        kept = read_counts(resources().redis)
    except RedisError:
        return None
    return kept if kept and time.time() - kept["counted_at"] < _OLDEST else None
