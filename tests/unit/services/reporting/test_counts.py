"""The counts for operators: which rows they have, and in which order."""

from datetime import timedelta

import pytest
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from migration_service.db.base import new_id
from migration_service.models import ImportSupplier, ServiceLimit
from migration_service.services.reporting.counts import (
    InProgress,
    OpenBatches,
    StuckAttempt,
    count_accounts,
    find_stuck_attempts,
    list_paused_suppliers,
    read_in_progress,
    read_open_batches,
    read_running_batches,
)
from migration_service.services.setup.suppliers import KnownSupplier
from unit.services.reporting.rows import (
    make_attempt,
    make_batch,
    make_chunk,
    make_process,
    read_now,
)


def test_nothing_is_in_progress(session: Session, known: KnownSupplier) -> None:
    make_process(session, known, "1", state="PENDING")
    session.get_one(ServiceLimit, 1).concurrency_limit = 7
    assert read_in_progress(session) == InProgress(0, 0.0, 7)


def test_what_is_in_progress_has_a_slot_each(session: Session, known: KnownSupplier) -> None:
    now = read_now(session)
    for number, state, age in (
        ("1", "IN_PROGRESS", 30),
        ("2", "IN_PROGRESS", 90),
        ("3", "IN_PROGRESS", 60),
        ("4", "PENDING", 500),
    ):
        process = make_process(session, known, number, state=state)
        make_attempt(session, known, process, created_at=now - timedelta(seconds=age))
    for mode, attempts in (("import", 2), ("dry-run", 3), ("stage", 4), ("validate", 5), ("import", None)):
        ids = None if attempts is None else [new_id() for _ in range(attempts)]
        make_chunk(session, make_batch(session, known, mode=mode), attempts=ids)
    session.get_one(ServiceLimit, 1).concurrency_limit = None
    assert read_in_progress(session) == InProgress(3 + 5, 90.0, None)


def _make_open(session: Session, known: KnownSupplier, other: KnownSupplier) -> dict[str, float]:
    """Insert open batches, and one that is over. Return how long those that run were idle, by batch."""
    now = read_now(session)
    idle = {}
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
        batch = make_batch(
            session,
            supplier,
            state=state,
            lines=lines,
            created_at=worked,
            started_at=worked,
            finished_at=ended,
        )
        is_done = done == lines
        make_chunk(
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
        if state == "RUNNING" and not is_done:
            idle[str(batch.id)] = float(age)
    return idle


def test_open_batches_are_summed_by_supplier(
    session: Session, known: KnownSupplier, other: KnownSupplier
) -> None:
    _make_open(session, known, other)
    found = read_open_batches(session)
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
    assert theirs == OpenBatches("OTHER", {"RUNNING": 1}, theirs.lines, 40.0, 0)


def test_the_batch_that_is_idle_for_longest_comes_first(
    session: Session, known: KnownSupplier, other: KnownSupplier
) -> None:
    idle = _make_open(session, known, other)
    found = [(str(batch_id), it.idle_seconds) for batch_id, it in read_running_batches(session).items()]
    assert found == sorted(idle.items(), key=lambda it: -it[1])
    assert len(found) == 3


@pytest.mark.usefixtures("unsorted")
def test_paused_suppliers_have_the_batches_that_wait_for_them(
    session: Session, known: KnownSupplier, other: KnownSupplier
) -> None:
    for state in ("WAITING", "WAITING", "PAUSED"):
        make_batch(session, other, state=state)
    make_batch(session, known, state="WAITING")
    assert list_paused_suppliers(session) == []
    session.get_one(ImportSupplier, other.id).status = "Paused"
    assert list_paused_suppliers(session) == [("OTHER", 2)]
    session.get_one(ImportSupplier, known.id).status = "Paused"
    assert list_paused_suppliers(session) == [("MINE", 1), ("OTHER", 2)]
    for number in range(2):
        make_batch(session, known, state="WAITING", name=str(number))
    assert list_paused_suppliers(session) == [("MINE", 3), ("OTHER", 2)]


def test_accounts_and_attempts_are_counted(
    session: Session, known: KnownSupplier, other: KnownSupplier
) -> None:
    for supplier, states in ((known, ("PENDING", "IMPORTED", "IMPORTED")), (other, ("IMPORTED",))):
        for number, state in enumerate(states):
            make_process(session, supplier, str(number), state=state)
    assert count_accounts(session)["attempts"] == []
    process = make_process(session, other, "9", state="SKIPPED")
    for outcome, code in (
        ("SUCCEEDED", None),
        ("FAILED", "broken"),
        ("FAILED", "broken"),
        ("FAILED", "account_failed_validation"),
        (None, None),
    ):
        ended = read_now(session) if outcome else None
        make_attempt(session, other, process, outcome=outcome, error_code=code, finished_at=ended)
    for mode, refused in (("import", 3), ("import", 4), ("dry-run", 100), ("stage", 1_000)):
        make_chunk(session, make_batch(session, known, mode=mode), refused=refused)
    found = count_accounts(session)
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


def test_the_oldest_attempts_that_are_stuck_are_found(session: Session, known: KnownSupplier) -> None:
    now = session.scalar(select(func.now()))
    assert now is not None
    for number, age, tries, state in (
        ("young", 59, 1, "IN_PROGRESS"),
        ("old", 61, 2, "IN_PROGRESS"),
        ("oldest", 90, 3, "IN_PROGRESS"),
        ("over", 99, 1, "PENDING"),
    ):
        process = make_process(session, known, number, state=state, tries=tries)
        make_attempt(session, known, process, created_at=now - timedelta(seconds=age))
    oldest, old = StuckAttempt("MINE", "oldest", 3, 90.0), StuckAttempt("MINE", "old", 2, 61.0)
    assert find_stuck_attempts(session, seconds=60) == [oldest, old]
    assert find_stuck_attempts(session, seconds=61) == [oldest]
    assert find_stuck_attempts(session, seconds=60, limit=1) == [oldest]
    for more in range(4):
        process = make_process(session, known, str(more), state="IN_PROGRESS")
        make_attempt(session, known, process, created_at=now - timedelta(seconds=70))
    assert len(find_stuck_attempts(session, seconds=60)) == 5
