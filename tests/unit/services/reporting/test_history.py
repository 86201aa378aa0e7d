"""The accounts that were created on each day of a zone, and the codes for which lines failed."""

from datetime import UTC, datetime, time, timedelta
from zoneinfo import ZoneInfo

from sqlalchemy.orm import Session

from migration_service.services.reporting.history import count_created_by_day, count_failures_by_code
from migration_service.services.setup.suppliers import KnownSupplier
from unit.services.reporting.rows import make_batch, make_chunk, make_process, read_now

#: Its days begin thirteen hours before those of UTC.
_ZONE = ZoneInfo("Etc/GMT-13")


def test_accounts_are_counted_by_the_day_of_the_zone(
    session: Session, known: KnownSupplier, other: KnownSupplier
) -> None:
    today = read_now(session).astimezone(_ZONE).date()
    midnight = datetime.combine(today, time(), _ZONE)
    moment = timedelta(microseconds=1)
    for number, at in enumerate(
        (
            midnight,
            midnight + timedelta(hours=1),
            midnight - moment,
            midnight - timedelta(days=2),
            midnight - timedelta(days=2) - moment,
            None,
        )
    ):
        make_process(session, known, str(number), account_created_at=at)
    make_process(session, other, "1", account_created_at=midnight)
    found = count_created_by_day(session, known.id, days=5, zone=_ZONE)
    assert found == [(today - timedelta(days=4 - index), n) for index, n in enumerate((0, 1, 1, 1, 2))]
    assert count_created_by_day(session, known.id, days=1, zone=_ZONE) == [(today, 2)]
    nothing = count_created_by_day(session, known.id, days=0, zone=_ZONE)
    assert nothing == []


def test_the_most_frequent_codes_of_failed_lines_come_first(
    session: Session, known: KnownSupplier, other: KnownSupplier
) -> None:
    removed = {"lines_removed_at": datetime(2026, 1, 1, tzinfo=UTC)}
    for supplier, mode, values, errors in (
        (known, "stage", {}, {"a": 1, "b": 2, "c": 3}),
        (known, "import", {}, {"d": 3, "a": 4}),
        (known, "validate", {}, {"b": 100}),
        (known, "dry-run", {}, {"b": 100}),
        (known, "stage", removed, {"b": 100}),
        (other, "stage", {}, {"b": 100}),
    ):
        batch = make_batch(session, supplier, mode=mode, **values)
        make_chunk(session, batch, error_counts=errors, warning_counts={"w": 9})
    expected = [("a", 5), ("c", 3), ("d", 3), ("b", 2)]
    assert count_failures_by_code(session, known.id) == expected
    assert count_failures_by_code(session, known.id, limit=2) == expected[:2]
    batch = make_batch(session, known)
    make_chunk(session, batch, error_counts={f"more {number}": 1 for number in range(9)})
    assert len(count_failures_by_code(session, known.id)) == 10
