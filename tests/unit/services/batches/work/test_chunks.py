"""A chunk as a worker sees it: what is to be done, who has it, and what became of its lines."""

from datetime import UTC, datetime
from typing import Any
from unittest.mock import patch

import pytest
from sqlalchemy import func, select, update
from sqlalchemy.orm import Session, sessionmaker

from migration_service.db.base import new_id
from migration_service.errors import ErrorItem
from migration_service.models import Batch, BatchLine, ServiceLimit
from migration_service.services.batches import clock
from migration_service.services.batches.error_thresholds import ErrorThreshold
from migration_service.services.batches.work import chunks
from migration_service.services.batches.work.added_data.lines import PIECE_LINES
from migration_service.services.batches.work.chunks import (
    ChunkKey,
    claim_chunk,
    read_chunk,
    release_chunk,
)
from migration_service.services.batches.work.lines import ChunkPlan, LineResult, write_outcomes
from migration_service.services.processing.attempts import MAX_TRIES
from migration_service.states import ChunkState, LineStatus
from support.factories import Customer
from support.rows import add_chunk, make_batch
from unit.services.batches.batch_rows import (
    add_lines,
    chunk_of,
    codes_of,
    lines_of,
    make_chunk,
    payload_of,
    without_indexes,
    work,
)

NOW = datetime(2026, 3, 2, 22, 30, tzinfo=UTC)
PENDING: dict[str, Any] = {"counts": {"PENDING": 3, "IMPORTED": 4}}
_MEASURED: dict[str, Any] = {"done": 4, "failures": {"required": 2}, "worked_at": func.now()}
_NOTES: dict[str, Any] = {"kind": "notes", "mode": "import"}


@pytest.mark.parametrize(
    ("batch", "chunk", "expected"),
    [
        ({}, PENDING, ChunkPlan(3, slot_owner=None, limit=77)),
        ({"mode": "stage"}, PENDING, ChunkPlan(3, slot_owner=None, limit=77)),
        ({}, PENDING | {"tries": 1}, ChunkPlan(1, slot_owner=None, limit=77)),
        # After a worker died: a few lines at once, and after a second one each by itself.
        ({}, {"counts": {"PENDING": 100}, "tries": 1}, ChunkPlan(7, slot_owner=None, limit=77)),
        (
            {},
            {"counts": {"PENDING": 50, "IMPORTED": 50}, "tries": 1},
            ChunkPlan(7, slot_owner=None, limit=77),
        ),
        ({}, {"counts": {"PENDING": 100}, "tries": 2}, ChunkPlan(1, slot_owner=None, limit=77)),
        ({}, PENDING | {"state": "DISPATCHED"}, ChunkPlan(3, slot_owner=None, limit=77)),
        ({}, PENDING | {"state": "DONE"}, None),
        ({}, {"counts": {"VALID": 3}}, None),
        ({"state": "PAUSED"}, PENDING, None),
        (_NOTES, {"counts": {"PENDING": 3, "DEFERRED": 1}}, ChunkPlan(4, slot_owner=None, limit=None)),
        (_NOTES, {"counts": {"DEFERRED": 3}, "not_before": func.now()}, None),
        (_NOTES, {"counts": {"PENDING": 900}}, ChunkPlan(PIECE_LINES, slot_owner=None, limit=None)),
        (_NOTES, {"counts": {"PENDING": 900}, "tries": 2}, ChunkPlan(1, slot_owner=None, limit=None)),
        (
            _NOTES | {"kind": "payment-instructions"},
            PENDING,
            ChunkPlan(3, slot_owner=None, limit=None, asks_vendors=True),
        ),
        (
            {"kind": "payment-instructions", "mode": "validate"},
            PENDING,
            ChunkPlan(3, slot_owner=None, limit=None),
        ),
    ],
)
def test_what_a_worker_takes_at_once_follows_from_the_batch_and_its_chunk(
    session: Session,
    customer: Customer,
    batch: dict[str, Any],
    chunk: dict[str, Any],
    expected: ChunkPlan | None,
) -> None:
    session.execute(update(ServiceLimit).values(concurrency_limit=77))
    made = make_batch(session, customer, **batch)
    add_chunk(session, made, 10, **PENDING, tries=1)
    add_chunk(session, made, **chunk)
    assert read_chunk(session, ChunkKey(made.id, 1)) == expected


@pytest.mark.parametrize("mode", ["dry-run", "import"])
def test_accounts_are_created_with_slots(session: Session, customer: Customer, mode: str) -> None:
    key = make_chunk(session, customer, [payload_of(customer, it) for it in "abc"], mode=mode)
    session.execute(update(ServiceLimit).values(concurrency_limit=None))
    assert read_chunk(session, key) == ChunkPlan(3, slot_owner=customer.organisation_id, limit=None)


@pytest.mark.parametrize(
    ("batch", "state", "reason"),
    [
        ({"brake": ErrorThreshold(stop_after_errors="2").to_dict()}, "PAUSED", "error_threshold_reached"),
        ({"brake": ErrorThreshold(stop_after_errors="3").to_dict()}, "RUNNING", None),
        (
            {"brake": ErrorThreshold(stop_after_errors="2").to_dict(), "brake_since": func.now()},
            "RUNNING",
            None,
        ),
        ({"runs_until": NOW}, "PAUSED", "window_closed"),
        ({"runs_until": NOW.replace(second=1)}, "RUNNING", None),
    ],
)
def test_a_batch_is_paused_by_its_threshold_or_its_window_before_a_worker_takes_more(
    session: Session, customer: Customer, batch: dict[str, Any], state: str, reason: str | None
) -> None:
    made = make_batch(session, customer, **batch)
    add_chunk(session, made, **PENDING, **_MEASURED)
    with patch.object(clock, "read_clock", lambda _session: NOW):
        plan = read_chunk(session, ChunkKey(made.id, 1))
    session.refresh(made)
    assert (made.state, made.reason) == (state, reason)
    assert (plan is not None) == (state == "RUNNING")


def test_a_claim_names_its_attempts_and_counts_a_try(session: Session, customer: Customer) -> None:
    batch = make_batch(session, customer)
    keys = [ChunkKey(batch.id, add_chunk(session, batch, 10 * i + 1).first_line) for i in range(2)]
    elsewhere = ChunkKey(make_batch(session, customer).id, 1)
    add_chunk(session, session.get_one(Batch, elsewhere.batch_id))
    attempts = [new_id(), new_id()]
    assert claim_chunk(session, keys[0], attempts)
    chunk = chunk_of(session, keys[0])
    assert (chunk.state, chunk.attempts, chunk.tries) == ("DISPATCHED", attempts, 1)
    assert chunk.dispatched_at == session.scalar(select(func.now()))
    for key in (keys[1], elsewhere):
        chunk = chunk_of(session, key)
        assert (chunk.state, chunk.attempts, chunk.tries, chunk.dispatched_at) == ("PENDING", None, 0, None)
    chunk.state = ChunkState.DONE
    session.flush()
    assert not claim_chunk(session, elsewhere, attempts), "it is done"


@pytest.mark.parametrize(
    ("state", "is_throttled", "expected"),
    [
        ("DISPATCHED", True, ("PENDING", None, True)),
        ("DISPATCHED", False, ("PENDING", None, False)),
        ("DONE", True, ("DONE", [], False)),
    ],
)
def test_a_chunk_is_released_unless_it_is_done(
    session: Session, customer: Customer, state: str, *, is_throttled: bool, expected: tuple[str, Any, bool]
) -> None:
    batch = make_batch(session, customer)
    add_chunk(session, batch, state=state, attempts=[])
    add_chunk(session, batch, 10, state="DISPATCHED", attempts=[])
    release_chunk(session, ChunkKey(batch.id, 1), is_throttled=is_throttled)
    chunk = chunk_of(session, ChunkKey(batch.id, 1))
    assert (chunk.state, chunk.attempts, chunk.throttled_at is not None) == expected
    bystander = chunk_of(session, ChunkKey(batch.id, 10))
    assert (bystander.state, bystander.attempts) == ("DISPATCHED", [])


def test_the_first_pending_lines_get_their_outcome_and_are_counted(
    session: Session, customer: Customer
) -> None:
    other = make_batch(session, customer)
    key = make_chunk(session, customer, [b"{", *(payload_of(customer, it) for it in "abc")])
    assert work(session, key, 3) == 1
    assert [it.status for it in lines_of(session, key)] == ["FAILED", "IMPORTED", "IMPORTED", "PENDING"]
    chunk = chunk_of(session, key)
    assert (chunk.counts, chunk.refused) == ({"FAILED": 1, "IMPORTED": 2, "PENDING": 1}, 1)
    assert (chunk.done, chunk.worked, chunk.tries, chunk.attempts) == (3, 3, 0, None)
    batch = session.get_one(Batch, key.batch_id, populate_existing=True)
    session.refresh(other)
    assert (batch.started_at, other.started_at) == (session.scalar(select(func.now())), None)
    assert work(session, key, 3) == 0
    chunk = chunk_of(session, key)
    assert (chunk.state, chunk.refused) == ("DONE", 1)


@pytest.mark.parametrize("by_account", [False, True])
def test_lines_are_taken_in_their_order_and_locked_until_their_outcome_is_known(
    sessions: sessionmaker[Session], customer: Customer, *, by_account: bool
) -> None:
    with sessions.begin() as session:
        kind = "notes" if by_account else "accounts"
        key = make_chunk(session, customer, [payload_of(customer, it) for it in "abc"], kind=kind)
        first = update(BatchLine).where(BatchLine.batch_id == key.batch_id, BatchLine.line_number == 1)
        session.execute(first.values(external_account_number="A"))  # which moves the row to the end
        # Neither of these lines is of the chunk.
        batch = session.get_one(Batch, key.batch_id)
        add_lines(session, batch, "PENDING", first=4)
        add_lines(session, make_batch(session, customer), "PENDING", chunk_line=1)
    free = select(BatchLine.line_number).order_by(BatchLine.line_number).with_for_update(skip_locked=True)
    with sessions() as worker, sessions() as another:

        def write(*args: Any) -> None:
            assert another.scalars(free).all() == [1, 3, 4]
            write_outcomes(*args)

        without_indexes(worker)
        with patch.object(chunks, "write_outcomes", write):
            work(worker, key, 2)
        assert [it.status == "PENDING" for it in lines_of(worker, key)] == [False, False, True, True]


@pytest.mark.parametrize("kind", ["accounts", "notes"])
def test_after_too_many_tries_only_the_first_line_is_given_up(
    session: Session, customer: Customer, kind: str
) -> None:
    code = "account_creation_failed" if kind == "accounts" else "line_failed_unexpectedly"
    key = make_chunk(session, customer, [b"{", b"{", b"{"], kind=kind)
    assert work(session, key, 2, tries=MAX_TRIES + 1) == 2
    assert codes_of(session, key) == [("FAILED", [(code, None)]), ("PENDING", []), ("PENDING", [])]
    assert lines_of(session, key)[0].errors == [
        {
            "code": code,
            "detail": f"Given up after {MAX_TRIES} tries: the worker or its connection ended each time.",
            "attr": None,
        }
    ]
    assert chunk_of(session, key).refused == 0
    assert work(session, key, 1, tries=MAX_TRIES) == 1
    assert codes_of(session, key)[1] == ("FAILED", [("parse_error", None)])


@pytest.mark.parametrize(
    ("mode", "kind", "refused"),
    [
        ("import", "accounts", 1),
        ("dry-run", "accounts", 1),
        ("stage", "accounts", 0),
        ("validate", "accounts", 0),
        ("import", "notes", 0),
        ("validate", "notes", 0),
    ],
)
def test_only_accounts_that_were_to_be_created_are_counted_as_refused(
    session: Session, customer: Customer, mode: str, kind: str, refused: int
) -> None:
    key = make_chunk(session, customer, [b"{"], mode=mode, kind=kind)
    assert work(session, key, 1) == 0
    assert (chunk_of(session, key).counts, chunk_of(session, key).refused) == ({"FAILED": 1}, refused)


def test_two_workers_that_begin_a_batch_together_do_not_change_when_it_was_started(
    sessions: sessionmaker[Session], customer: Customer
) -> None:
    with sessions.begin() as session:
        key = make_chunk(session, customer, [b"{"], mode="validate")
    with sessions() as session:
        batch = session.get_one(Batch, key.batch_id)
        assert batch.started_at is None
        with sessions.begin() as another:
            another.execute(update(Batch).values(started_at=NOW))
        assert work(session, key, 1) == 0
        session.refresh(batch)
        assert batch.started_at == NOW


def test_each_line_gets_its_own_outcome_without_what_cannot_be_stored(
    session: Session, customer: Customer
) -> None:
    batch, another = (make_batch(session, customer) for _ in range(2))
    for it in (batch, another):
        add_lines(session, it, *["PENDING"] * 3, external_account_number="as sent")
    hostile = "a\0b\ud800c"
    write_outcomes(
        session,
        batch.id,
        [
            LineResult(2, LineStatus.IMPORTED, "2", service_account_number="A-2"),
            LineResult(
                1,
                LineStatus.FAILED,
                hostile,
                errors=[ErrorItem("invalid", hostile, hostile), ErrorItem("required", "D")],
                warnings=[ErrorItem("unknown_field", "W", hostile)],
            ),
        ],
    )

    def found(batch_id: ChunkKey) -> list[tuple[object, ...]]:
        return [
            (it.status, it.external_account_number, it.service_account_number, it.errors, it.warnings)
            for it in lines_of(session, batch_id)
        ]

    stored = "a\N{REPLACEMENT CHARACTER}b?c"
    untouched = ("PENDING", "as sent", None, None, None)
    assert found(ChunkKey(batch.id, 1)) == [
        (
            "FAILED",
            stored,
            None,
            [
                {"code": "invalid", "detail": stored, "attr": stored},
                {"code": "required", "detail": "D", "attr": None},
            ],
            [{"code": "unknown_field", "detail": "W", "attr": stored}],
        ),
        ("IMPORTED", "2", "A-2", None, None),
        untouched,
    ]
    assert found(ChunkKey(another.id, 1)) == [untouched] * 3
