"""Numbers on pages, counted now, or a little earlier if there are many accounts."""

import math
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, TypeVar, cast
from uuid import UUID

import msgspec
from flask import request
from redis import RedisError
from sqlalchemy import text
from sqlalchemy.orm import Session

from migration_service.blueprints.requests.resources import resources
from migration_service.db.cancelling import Work, allow_minutes
from migration_service.metrics.shared import read_counts
from migration_service.models import Batch
from migration_service.services.batches.results.line_results import ResultFilter
from migration_service.services.batches.retry import Retryable, count_retryable
from migration_service.services.reconciliation.verdict import Verdict, judge
from migration_service.services.reporting.counts import count_by_state
from migration_service.services.reporting.import_suppliers import count_states
from migration_service.states import ImportState

#: With this many accounts or lines, a page does not count them itself.
MANY = 100_000
#: Older counts are not shown.
_OLDEST = 600
#: Seconds after which a large installation counts again what is on a page.
_KEPT = 60
#: Seconds for which a page waits for what is being counted, and after which somebody else counts it.
PATIENCE, _LOST = 0.05, 120
#: Held by who counts: one thing at a time, because each keeps the database busy for seconds.
_COUNTING = "migration:console:counting"
#: The argument of an address with the time of the first look at it.
ASKED = "asked"
_ROWS = text("""
    SELECT max(reltuples) FROM pg_class
    WHERE oid IN ('account_import_process'::regclass, 'batch_line'::regclass)
""")
_NEWEST = text("""
    SELECT (SELECT max(id) FROM audit_entry) AS act,
           (SELECT extract(epoch FROM max(finished_at)) FROM comparison) AS comparison
""")
_Counted = TypeVar("_Counted")


class BeingCountedError(Exception):
    """The numbers of a page are being counted, which takes seconds."""


def count_accounts_by_state(
    session: Session, suppliers: Collection[tuple[int, str]]
) -> tuple[dict[str, dict[str, int]], datetime | None]:
    """Return the number of accounts in each state by supplier, given by id and code, and when that was.

    None is just now.
    """
    if not is_large(session):
        by_id = count_states(session, [pk for pk, _ in suppliers])
        return {code: by_id[pk] for pk, code in suppliers}, None
    counted_at: datetime | None
    if kept := _read_kept():
        rows, counted_at = kept["accounts"], datetime.fromtimestamp(kept["counted_at"], UTC)
    else:  # no worker has counted
        rows, counted_at = keep(session, "states", list[list[Any]], count_by_state)
    counts = {code: dict.fromkeys(map(str, ImportState), 0) for _, code in suppliers}
    for code, state, number in rows:
        if code in counts:
            counts[code][state] = number
    return counts, counted_at


def keep(
    session: Session, name: str, kind: type[_Counted], count: Callable[[Session], _Counted]
) -> tuple[_Counted, datetime | None]:
    """Return what `count` counts, or what was counted in the last minutes, and then when.

    A large installation counts beside the request. What people do is in the audit. After it, and after a
    comparison, older numbers are shown only on parts of pages and for forms that were sent. Raise
    BeingCountedError if there are no others yet.
    """
    if not is_large(session):
        return count(session), None
    shared, key = resources(), f"migration:console:{name}"
    newest = session.execute(_NEWEST).one()
    state = f"{newest.act} {newest.comparison}"
    is_look = request.method == "GET" and "part" not in request.args
    try:
        stored = cast(bytes | None, shared.redis.get(key))
        known = cast(Any, tuple)[str, float, kind]
        kept: Any = msgspec.json.decode(stored, type=known) if stored else None
        # The acts of others are no reason to let somebody wait for ever.
        is_new = kept and (kept[0] == state or kept[1] >= request.args.get(ASKED, math.inf, float))
        is_due = not is_new or time.time() - kept[1] > _KEPT
        work = None
        if is_due and shared.redis.set(_COUNTING, b"1", nx=True, ex=_LOST):
            work = Work(shared.connections, lambda: _count(key, state, count))
    except (RedisError, msgspec.ValidationError):  # or what another version of the service has kept
        return count(session), None
    if work and work.wait(PATIENCE):
        return work.result(), None
    if kept and (is_new or not is_look):
        return kept[2], datetime.fromtimestamp(kept[1], UTC)
    if is_look:
        raise BeingCountedError
    return count(session), None


def _count(key: str, state: str, count: Callable[[Session], _Counted]) -> _Counted:
    """Count, and keep the numbers with the time and what had happened by then."""
    redis, began_at = resources().redis, time.time()
    try:
        with resources().Session.begin() as session:
            allow_minutes(session)
            counted = count(session)
        with suppress(RedisError):  # Redis may be full, and the page is complete without it
            redis.set(key, msgspec.json.encode((state, began_at, counted)), ex=_OLDEST)
        return counted
    finally:
        with suppress(RedisError):
            redis.delete(_COUNTING)


def look_at_verdict(
    session: Session, import_supplier_id: int, batch_id: UUID | None = None
) -> tuple[Verdict, datetime | None]:
    """Return the verdict about a supplier or batch for a page that only shows it, as `keep` does."""
    name = f"verdict:{import_supplier_id}:{batch_id}"
    return keep(session, name, Verdict, lambda own: judge(own, import_supplier_id, batch_id))


def look_at_retryable(session: Session, batch: Batch, wanted: ResultFilter) -> Retryable:
    """Return the number of lines that can be retried for a page that only shows it, as `keep` does."""
    return keep(
        session,
        f"retryable:{batch.id}:{wanted.code}:{wanted.path}:{wanted.line}",
        Retryable,
        lambda own: count_retryable(own, batch, wanted),
    )[0]


def is_large(session: Session) -> bool:
    """Return whether there are so many accounts or lines that pages do not count them themselves."""
    return float(session.execute(_ROWS).scalar_one()) > MANY


def _read_kept() -> dict[str, Any] | None:
    try:
        kept = read_counts(resources().redis)
    except RedisError:
        return None
    return kept if kept and time.time() - kept["counted_at"] < _OLDEST else None
