"""The accounts that were created on each day of a zone, and the codes for which lines failed."""

from datetime import datetime, time, timedelta
from zoneinfo import ZoneInfo

from sqlalchemy.orm import Session

from migration_service.errors import DuplicateLineError
from migration_service.models import Batch
from migration_service.services.reporting.history import count_created_by_day, count_failures_by_code
from migration_service.services.setup.suppliers import KnownSupplier
from unit.services.reporting.rows import make_batch, make_chunk, make_line, make_process, read_now

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


def _fail(session: Session, batch: Batch, *lines: tuple[str | None, str]) -> None:
    """Add failed lines of account numbers, each with the codes of its errors."""
    for place, (number, codes) in enumerate(lines, 1):
        errors = [{"code": code, "detail": "", "attr": None} for code in codes.split()]
        make_line(session, batch, place, number, "FAILED", errors=errors)
    make_chunk(session, batch, first_line=1, last_line=len(lines), counts={"FAILED": len(lines)})


def test_the_most_frequent_codes_of_what_is_refused_now_come_first(
    session: Session, known: KnownSupplier, other: KnownSupplier
) -> None:
    first, second, third = (make_batch(session, known, mode=mode) for mode in ("stage", "import", "import"))
    _fail(session, first, ("1", "a a"), ("2", "a b"), ("3", "settled"), (None, "c"))
    _fail(session, second, ("2", "b"), ("4", "b"), (None, "c"), ("4", DuplicateLineError.code))
    make_process(session, known, "3", state="PENDING")
    for supplier, mode in ((known, "validate"), (known, "dry-run"), (other, "import")):
        _fail(session, make_batch(session, supplier, mode=mode), ("9", "elsewhere"))
    expected = [("b", 2), ("c", 2), ("a", 1)]
    assert count_failures_by_code(session, known.id) == expected
    assert count_failures_by_code(session, known.id, limit=2) == expected[:2]
    _fail(session, third, *((f"more {number}", f"d{number}") for number in range(9)))
    assert len(count_failures_by_code(session, known.id)) == 10
