"""The counts of accounts, open batches, days and refused codes."""

from collections import Counter
from datetime import datetime, time, timedelta
from zoneinfo import ZoneInfo

from sqlalchemy.orm import Session

from migration_service.db.base import new_id
from migration_service.errors import DuplicateLineError
from migration_service.models import Batch
from migration_service.services.reporting import counts
from migration_service.services.reporting.counts import count_created_by_day, count_failures_by_code
from migration_service.services.setup.suppliers import KnownSupplier
from support import rows


def test_open_batches_are_summed_by_supplier(
    session: Session, known: KnownSupplier, other: KnownSupplier
) -> None:
    now = rows.read_now(session)
    for supplier, state, lines, done, age in (
        (other, "RUNNING", 5, 1, 40),
        (known, "RUNNING", 10, 4, 100),
        (known, "RUNNING", 10, 6, 300),
        (known, "RUNNING", 10, 10, 900),
        (known, "PAUSED", 7, 2, 500),
        (known, "COMPLETED", 3, 3, 700),
    ):
        ended = now if state == "COMPLETED" else None
        worked = now - timedelta(seconds=age)
        batch = rows.make_batch(
            session,
            supplier,
            state=state,
            lines=lines,
            created_at=worked,
            started_at=worked,
            finished_at=ended,
        )
        is_done = done == lines
        rows.add_chunk(
            session,
            batch,
            last_line=lines,
            counts={"STAGED": done, **({} if is_done else {"PENDING": lines - done})},
            done=done,
            state="DONE" if is_done else "PENDING",
            worked_at=worked,
            finished_at=worked if is_done else None,
            # A batch whose chunk no worker has only waits for its turn.
            attempts=None if is_done else [new_id()],
        )
    found = counts.read_open_batches(session)
    assert [it.import_supplier for it in found] == ["MINE", "OTHER"]
    mine, theirs = found
    assert mine.batches == {"RUNNING": 3, "PAUSED": 1}
    assert {status: number for status, number in mine.lines.items() if number} == {
        "STAGED": 22,
        "PENDING": 15,
    }
    assert mine.idle_seconds == 300.0
    assert {status: number for status, number in theirs.lines.items() if number} == {
        "STAGED": 1,
        "PENDING": 4,
    }
    assert theirs == counts.OpenBatches("OTHER", Counter(RUNNING=1), theirs.lines, 40.0, 0)


def test_accounts_and_attempts_are_counted(
    session: Session, known: KnownSupplier, other: KnownSupplier
) -> None:
    for supplier, states in ((known, ("PENDING", "IMPORTED", "IMPORTED")), (other, ("IMPORTED",))):
        for number, state in enumerate(states):
            rows.make_process(session, supplier, str(number), state=state)
    assert counts.count_accounts(session)["attempts"] == []
    process = rows.make_process(session, other, "9", state="SKIPPED")
    for outcome, code in (
        ("SUCCEEDED", None),
        ("FAILED", "broken"),
        ("FAILED", "broken"),
        ("FAILED", "account_failed_validation"),
        (None, None),
    ):
        ended = rows.read_now(session) if outcome else None
        rows.make_attempt(session, other, process, outcome=outcome, error_code=code, finished_at=ended)
    for mode, refused in (("import", 3), ("import", 4), ("dry-run", 100), ("stage", 1_000)):
        rows.add_chunk(session, rows.make_batch(session, known, mode=mode), refused=refused)
    found = counts.count_accounts(session)
    assert sorted(found["accounts"]) == [
        ["MINE", "IMPORTED", 2],
        ["MINE", "PENDING", 1],
        ["OTHER", "IMPORTED", 1],
        ["OTHER", "SKIPPED", 1],
    ]
    assert sorted(found["attempts"]) == [
        ["FAILED", "account_failed_validation", 8],
        ["FAILED", "broken", 2],
        ["SUCCEEDED", "", 1],
    ]


#: Its days begin thirteen hours before those of UTC.
_ZONE = ZoneInfo("Etc/GMT-13")


def test_accounts_are_counted_by_the_day_of_the_zone(
    session: Session, known: KnownSupplier, other: KnownSupplier
) -> None:
    today = rows.read_now(session).astimezone(_ZONE).date()
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
        rows.make_process(session, known, str(number), account_created_at=at)
    rows.make_process(session, other, "1", account_created_at=midnight)
    found = count_created_by_day(session, known.id, days=5, zone=_ZONE)
    assert found == [(today - timedelta(days=4 - index), n) for index, n in enumerate((0, 1, 1, 1, 2))]
    assert count_created_by_day(session, known.id, days=1, zone=_ZONE) == [(today, 2)]
    nothing = count_created_by_day(session, known.id, days=0, zone=_ZONE)
    assert nothing == []


def _fail(session: Session, batch: Batch, *lines: tuple[str | None, str]) -> None:
    """Add failed lines of account numbers, each with the codes of its errors."""
    for place, (number, codes) in enumerate(lines, 1):
        errors = [{"code": code, "detail": "", "attr": None} for code in codes.split()]
        rows.make_line(session, batch, place, number, "FAILED", errors=errors)
    rows.add_chunk(session, batch, first_line=1, last_line=len(lines), counts={"FAILED": len(lines)})


def test_the_most_frequent_codes_of_what_is_refused_now_come_first(
    session: Session, known: KnownSupplier, other: KnownSupplier
) -> None:
    first, second, third = (
        rows.make_batch(session, known, mode=mode) for mode in ("stage", "import", "import")
    )
    _fail(session, first, ("1", "a a"), ("2", "a b"), ("3", "settled"), (None, "c"))
    _fail(session, second, ("2", "b"), ("4", "b"), (None, "c"), ("4", DuplicateLineError.code))
    rows.make_process(session, known, "3", state="PENDING")
    for supplier, mode in ((known, "validate"), (known, "dry-run"), (other, "import")):
        _fail(session, rows.make_batch(session, supplier, mode=mode), ("9", "elsewhere"))
    expected = [("b", 2), ("c", 2), ("a", 1)]
    assert count_failures_by_code(session, known.id) == expected
    assert count_failures_by_code(session, known.id, limit=2) == expected[:2]
    _fail(session, third, *((f"more {number}", f"d{number}") for number in range(9)))
    assert len(count_failures_by_code(session, known.id)) == 10
