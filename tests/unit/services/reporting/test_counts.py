"""The counts for operators: accounts, suppliers, days, e-mails and work in progress."""

from datetime import UTC, datetime, time, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from sqlalchemy.orm import Session

from migration_service.db.base import new_id
from migration_service.errors import DuplicateLineError
from migration_service.models import Account, Batch, Customer, CustomerEmail, ImportSupplier, ServiceLimit
from migration_service.services.reporting import counts, work
from migration_service.services.reporting.emails import count_emails, list_emails
from migration_service.services.reporting.history import count_created_by_day, count_failures_by_code
from migration_service.services.setup.suppliers import KnownSupplier
from migration_service.states import EmailState
from support import rows


def test_nothing_is_in_progress(session: Session, known: KnownSupplier) -> None:
    rows.make_process(session, known, "1", state="PENDING")
    session.get_one(ServiceLimit, 1).concurrency_limit = 7
    assert counts.read_in_progress(session) == counts.InProgress(0, 0.0, 7)


def test_what_is_in_progress_has_a_slot_each(session: Session, known: KnownSupplier) -> None:
    now = rows.read_now(session)
    for number, state, age in (
        ("1", "IN_PROGRESS", 30),
        ("2", "IN_PROGRESS", 90),
        ("3", "IN_PROGRESS", 60),
        ("4", "PENDING", 500),
    ):
        process = rows.make_process(session, known, number, state=state)
        rows.make_attempt(session, known, process, created_at=now - timedelta(seconds=age))
    for mode, attempts in (("import", 2), ("dry-run", 3), ("stage", 4), ("validate", 5), ("import", None)):
        ids = None if attempts is None else [new_id() for _ in range(attempts)]
        rows.add_chunk(session, rows.make_batch(session, known, mode=mode), attempts=ids)
    session.get_one(ServiceLimit, 1).concurrency_limit = None
    assert counts.read_in_progress(session) == counts.InProgress(3 + 5, 90.0, None)


def _make_open(session: Session, known: KnownSupplier, other: KnownSupplier) -> dict[str, float]:
    """Insert open batches, and one that is over. Return how long those that run were idle, by batch."""
    now = rows.read_now(session)
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
        if state == "RUNNING" and not is_done:
            idle[str(batch.id)] = float(age)
    return idle


def test_open_batches_are_summed_by_supplier(
    session: Session, known: KnownSupplier, other: KnownSupplier
) -> None:
    _make_open(session, known, other)
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
    assert theirs == counts.OpenBatches("OTHER", {"RUNNING": 1}, theirs.lines, 40.0, 0)


def test_the_batch_that_is_idle_for_longest_comes_first(
    session: Session, known: KnownSupplier, other: KnownSupplier
) -> None:
    idle = _make_open(session, known, other)
    found = [
        (str(batch_id), it.idle_seconds) for batch_id, it in counts.read_running_batches(session).items()
    ]
    assert found == sorted(idle.items(), key=lambda it: -it[1])
    assert len(found) == 3


@pytest.mark.usefixtures("unsorted")
def test_paused_suppliers_have_the_batches_that_wait_for_them(
    session: Session, known: KnownSupplier, other: KnownSupplier
) -> None:
    for state in ("WAITING", "WAITING", "PAUSED"):
        rows.make_batch(session, other, state=state)
    rows.make_batch(session, known, state="WAITING")
    assert counts.list_paused_suppliers(session) == []
    session.get_one(ImportSupplier, other.id).status = "Paused"
    assert counts.list_paused_suppliers(session) == [("OTHER", 2)]
    session.get_one(ImportSupplier, known.id).status = "Paused"
    assert counts.list_paused_suppliers(session) == [("MINE", 1), ("OTHER", 2)]
    for number in range(2):
        rows.make_batch(session, known, state="WAITING", name=str(number))
    assert counts.list_paused_suppliers(session) == [("MINE", 3), ("OTHER", 2)]


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


@pytest.fixture
def requests(session: Session, known: KnownSupplier, other: KnownSupplier) -> list[tuple[Any, ...]]:
    """Three attempts in progress, the oldest first, and one of an account that is pending again."""
    made = []
    for supplier, number, state, dry_run, tries, age in (
        (known, "1", "IN_PROGRESS", False, 1, 10),
        (known, "2", "IN_PROGRESS", True, 2, 30),
        (other, "3", "IN_PROGRESS", False, 3, 20),
        (known, "4", "PENDING", False, 4, 40),
    ):
        process = rows.make_process(session, supplier, number, state=state, tries=tries)
        at = rows.read_now(session) - timedelta(seconds=age)
        attempt = rows.make_attempt(session, supplier, process, dry_run=dry_run, created_at=at)
        if state == "IN_PROGRESS":
            made.append((supplier.code, number, attempt.id, dry_run, tries, float(age)))
    return sorted(made, key=lambda it: -it[-1])


def test_running_requests_are_those_of_the_suppliers(
    session: Session, known: KnownSupplier, other: KnownSupplier, requests: list[tuple[Any, ...]]
) -> None:
    first, second, third = requests
    assert work.list_running_requests(session, import_supplier_ids=None) == requests
    assert work.list_running_requests(session, import_supplier_ids=None, limit=2) == [first, second]
    assert work.list_running_requests(session, import_supplier_ids=[known.id]) == [first, third]
    assert work.list_running_requests(session, import_supplier_ids=[known.id, other.id]) == requests
    assert work.list_running_requests(session, import_supplier_ids=[]) == []


def test_running_chunks_are_those_of_the_suppliers(
    session: Session, known: KnownSupplier, other: KnownSupplier
) -> None:
    made = []
    for supplier, names, attempts, tries, age in (
        (known, {"name": "night", "file_name": "a.ndjson"}, 1, 5, 10),
        (known, {"file_name": "b.ndjson"}, 2, 6, 30),
        (other, {}, 3, 7, 20),
        (known, {}, None, 8, 40),
    ):
        batch = rows.make_batch(session, supplier, **names)
        at = rows.read_now(session) - timedelta(seconds=age)
        ids = None if attempts is None else [new_id() for _ in range(attempts)]
        rows.add_chunk(session, batch, 4, last_line=7, attempts=ids, tries=tries, dispatched_at=at)
        if attempts is not None:
            name = names.get("name") or names.get("file_name")
            chunk = (supplier.code, batch.id, name, 4, 7, attempts, tries, float(age))
            made.append(chunk)
    made.sort(key=lambda it: -it[-1])
    first, second, third = made
    assert work.list_running_chunks(session, import_supplier_ids=None) == made
    assert work.list_running_chunks(session, import_supplier_ids=None, limit=2) == [first, second]
    assert work.list_running_chunks(session, import_supplier_ids=[known.id]) == [first, third]
    assert work.list_running_chunks(session, import_supplier_ids=[]) == []


_AT = datetime(2026, 1, 1, tzinfo=UTC)


def _make_email(
    session: Session, account: Account, code: str, state: str = "PENDING", **values: object
) -> tuple[Any, ...]:
    customer = rows.add(session, Customer(account_pk=account.id, position=0))
    email = rows.add(
        session,
        CustomerEmail(
            organisation_id=1, import_supplier_id=1, customer_pk=customer.id, state=state, **values
        ),
    )
    return (
        email.id,
        code,
        account.external_account_number,
        state,
        email.created_at,
        email.next_try_at,
        email.failures,
        email.error,
        email.sent_at,
    )


@pytest.fixture
def emails(session: Session, known: KnownSupplier, other: KnownSupplier) -> list[tuple[Any, ...]]:
    """Return four e-mails, the newest first. The third one is of the other supplier."""
    one, two = (rows.make_account(session, rows.make_process(session, known, number)) for number in "12")
    theirs = rows.make_account(session, rows.make_process(session, other, "1"))
    failed = {"failures": 3, "error": "refused", "next_try_at": _AT}
    return [
        _make_email(session, one, "MINE", "SENT", sent_at=_AT, created_at=_AT),
        _make_email(session, theirs, "OTHER", "REFUSED", **failed),
        _make_email(session, two, "MINE", "PENDING", failures=1),
        _make_email(session, two, "MINE", "SENT", sent_at=_AT),
    ][::-1]


def test_emails_are_counted_by_state(
    session: Session, known: KnownSupplier, other: KnownSupplier, emails: list[tuple[Any, ...]]
) -> None:
    nothing = dict.fromkeys(map(str, EmailState), 0)
    assert count_emails(session, import_supplier_ids=None) == nothing | {
        "SENT": 2,
        "REFUSED": 1,
        "PENDING": 1,
    }
    assert count_emails(session, import_supplier_ids=[known.id]) == nothing | {"SENT": 2, "PENDING": 1}
    assert count_emails(session, import_supplier_ids=[other.id]) == nothing | {"REFUSED": 1}
    assert count_emails(session, import_supplier_ids=[]) == nothing


def test_emails_are_listed_by_supplier_state_and_page(
    session: Session, known: KnownSupplier, emails: list[tuple[Any, ...]]
) -> None:
    newest, second, theirs, oldest = emails
    assert list_emails(session, import_supplier_ids=None, state=None) == emails
    assert list_emails(session, import_supplier_ids=None, state=None, limit=2) == [newest, second]
    assert list_emails(session, import_supplier_ids=None, state=None, before=second[0]) == [theirs, oldest]
    assert list_emails(session, import_supplier_ids=[known.id], state=None) == [newest, second, oldest]
    assert list_emails(session, import_supplier_ids=None, state=EmailState.SENT) == [newest, oldest]
    assert list_emails(session, import_supplier_ids=[], state=None) == []
