"""Numbers on pages, counted now, or a little earlier if there are many accounts."""

import time
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeVar, cast
from uuid import UUID
from zoneinfo import ZoneInfo

import msgspec
from redis import RedisError
from sqlalchemy import text
from sqlalchemy.orm import Session

from migration_service.blueprints.requests.resources import resources
from migration_service.metrics.shared import read_counts
from migration_service.services.reconciliation.verdict import Verdict, judge
from migration_service.services.reporting.history import CreatedOnDay, count_created_by_day
from migration_service.services.reporting.import_suppliers import count_states
from migration_service.states import ImportState

#: With this many accounts or more, a page does not count them itself.
MANY = 100_000
#: Older counts of the workers are not shown.
_OLDEST = 600.0
_DAYS = 30
#: Seconds for which a large installation keeps what was counted for a page.
_KEPT = 60
_ROWS = text("SELECT reltuples FROM pg_class WHERE oid = 'account_import_process'::regclass")
_NEWEST = text("""
    SELECT (SELECT max(id) FROM audit_entry) AS act,
           (SELECT extract(epoch FROM max(finished_at)) FROM comparison) AS comparison
""")
_Counted = TypeVar("_Counted")


@dataclass(frozen=True, slots=True)
class StateCounts:
    """The number of accounts in each state, by supplier code."""

    counts: dict[str, dict[str, int]]
    #: When they were counted, or None if just now.
    counted_at: datetime | None


def count_accounts_by_state(session: Session, suppliers: Collection[tuple[int, str]]) -> StateCounts:
    """Return the counts of these suppliers, given by id and code."""
    kept = _read_kept() if _is_large(session) else None
    if kept is None:
        by_id = count_states(session, [pk for pk, _ in suppliers])
        return StateCounts({code: by_id[pk] for pk, code in suppliers}, None)
    counts = {code: dict.fromkeys(map(str, ImportState), 0) for _, code in suppliers}
    for code, state, number in kept["accounts"]:
        if code in counts:
            counts[code][state] = number
    return StateCounts(counts, datetime.fromtimestamp(kept["counted_at"], UTC))


def keep(
    session: Session, name: str, kind: type[_Counted], count: Callable[[], _Counted]
) -> tuple[_Counted, datetime | None]:
    """Return what `count` counts, or in a large installation has counted in the last minute, and then when.

    What people do is in the audit. After it, and after a comparison, everything is counted again.
    """
    if not _is_large(session):
        return count(), None
    redis, newest = resources().redis, session.execute(_NEWEST).one()
    key = f"migration:console:{name}:{newest.act}:{newest.comparison}"
    try:
        if kept := cast(bytes | None, redis.get(key)):
            known = cast(Any, tuple)[kind, datetime]
            return cast(tuple[_Counted, datetime], msgspec.json.decode(kept, type=known))
    except RedisError:
        return count(), None
    counted = count()
    with suppress(RedisError):  # Redis may be full, and the page is complete without it
        redis.set(key, msgspec.json.encode((counted, datetime.now(UTC))), ex=_KEPT)
    return counted, None


def look_at_verdict(
    session: Session, import_supplier_id: int, batch_id: UUID | None = None
) -> tuple[Verdict, datetime | None]:
    """Return the verdict about a supplier or batch for a page that only shows it, as `keep` does."""
    name = f"verdict:{import_supplier_id}:{batch_id}"
    return keep(session, name, Verdict, lambda: judge(session, import_supplier_id, batch_id))


def created_by_day(session: Session, import_supplier_id: int) -> list[CreatedOnDay]:
    """Return the number of a supplier's accounts created on each of the last days."""
    zone = ZoneInfo(resources().settings.console_time_zone)
    return count_created_by_day(session, import_supplier_id, days=_DAYS, zone=zone)


def _is_large(session: Session) -> bool:
    return float(session.execute(_ROWS).scalar_one()) > MANY


def _read_kept() -> dict[str, Any] | None:
    try:
        kept = read_counts(resources().redis)
    except RedisError:
        return None
    return kept if kept and time.time() - kept["counted_at"] < _OLDEST else None
