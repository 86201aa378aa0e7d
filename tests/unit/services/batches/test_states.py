"""The states of batches: who may change what, what people do, and what the feed changes by itself."""

from datetime import timedelta

import pytest
from sqlalchemy import func, select, update
from sqlalchemy.orm import Session, sessionmaker

from migration_service.db.base import new_id
from migration_service.errors import BatchStateError
from migration_service.models import ApiKey, Batch, Undo
from migration_service.services.batches import control, states
from migration_service.services.batches.undo_guards import find_undos_of_plans, require_no_undo
from migration_service.services.setup.suppliers import set_status
from migration_service.services.waves.reading import list_waves
from migration_service.states import (
    BatchCondition,
    BatchState,
    ChunkState,
    SupplierStatus,
    WaveState,
)
from support.factories import Customer, make_customer
from support.rows import add_chunk, make_batch
from unit.services.undo.undo_rows import MOMENT, add_undo
from unit.services.waves.wave_rows import batch_of, make_plan

_OPEN = (BatchState.RUNNING, BatchState.WAITING)


def _states(session: Session, *batches: Batch) -> list[tuple[str, str | None, bool]]:
    """Return the state and the reason of each batch, and whether it is over."""
    session.expire_all()
    return [(it.state, it.reason, it.finished_at is not None) for it in batches]


def test_open_batches_whose_chunks_are_all_done_are_completed(session: Session, customer: Customer) -> None:
    def make(state: BatchState, *chunks: ChunkState) -> Batch:
        batch = make_batch(session, customer, state=state, reason="why")
        for first, chunk in enumerate(chunks, 1):
            add_chunk(session, batch, first, state=chunk)
        return batch

    done = [make(state, ChunkState.DONE, ChunkState.DONE) for state in _OPEN]
    left = [
        make(BatchState.RUNNING, ChunkState.DONE, it) for it in (ChunkState.PENDING, ChunkState.DISPATCHED)
    ]
    held = [make(it, ChunkState.DONE) for it in (BatchState.PAUSED, BatchState.STOPPED)]
    states.complete_batches(session)
    assert _states(session, *done) == [("COMPLETED", None, True)] * 2
    assert _states(session, *left) == [("RUNNING", "why", False)] * 2
    assert _states(session, *held) == [("PAUSED", "why", False), ("STOPPED", "why", False)]


def test_batches_of_a_revoked_key_are_paused(sessions: sessionmaker[Session], customer: Customer) -> None:
    other = make_customer(sessions)
    with sessions() as session:
        keys = {it.prefix: it.id for it in session.scalars(select(ApiKey))}
        own, others = keys[customer.prefix], keys[other.prefix]
        session.execute(update(ApiKey).where(ApiKey.id == own).values(revoked_at=func.now()))
        paused = [make_batch(session, customer, api_key_id=own, state=state) for state in _OPEN]
        kept = [
            make_batch(session, customer, api_key_id=others),
            make_batch(session, customer),
            make_batch(session, customer, api_key_id=own, state=BatchState.COMPLETED),
        ]
        states.follow_keys(session)
        assert _states(session, *paused) == [("PAUSED", "api_key_revoked", False)] * 2
        assert [state for state, _, _ in _states(session, *kept)] == ["RUNNING", "RUNNING", "COMPLETED"]


def test_a_batch_that_runs_is_paused_once_and_no_other_one(session: Session, customer: Customer) -> None:
    batches = [make_batch(session, customer, state=state) for state in _OPEN]
    other = make_batch(session, customer)
    for batch in batches:
        paused = states.pause_for(session, batch.id, "window_closed")
        assert paused is not None
        assert paused.organisation_id == customer.organisation_id
        assert states.pause_for(session, batch.id, "window_closed") is None
    assert states.pause_for(session, new_id(), "window_closed") is None
    assert _states(session, *batches, other) == [
        ("PAUSED", "window_closed", False),
        ("PAUSED", "window_closed", False),
        ("RUNNING", None, False),
    ]


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (SupplierStatus.ONGOING, ("RUNNING", None, False)),
        (SupplierStatus.PAUSED, ("WAITING", "import_supplier_paused", False)),
        (SupplierStatus.COMPLETE, ("STOPPED", "import_supplier_complete", True)),
    ],
)
def test_batches_that_create_accounts_follow_their_supplier(
    sessions: sessionmaker[Session],
    customer: Customer,
    status: SupplierStatus,
    expected: tuple[str, str | None, bool],
) -> None:
    other = make_customer(sessions)
    with sessions() as session:
        set_status(session, customer.import_supplier, status)
        # One that waits already stays as it is, with its reason.
        sources = [state for state in _OPEN if state != expected[0]]
        following = [make_batch(session, customer, mode="stage", state=state) for state in sources]
        kept = [
            make_batch(session, customer, mode="validate", state=BatchState.WAITING),
            make_batch(session, customer, mode="import", kind="notes", state=BatchState.WAITING),
            make_batch(session, customer, mode="stage", state=BatchState.PAUSED),
            make_batch(session, other, mode="stage"),
        ]
        before = _states(session, *kept)
        states.follow_suppliers(session)
        assert _states(session, *following) == [expected] * len(sources)
        assert [it.runs_since is not None for it in following] == [expected[0] == "RUNNING"] * len(sources)
        # A worker may be about to take a chunk that was dispatched, so its batch ends later.
        dispatched = make_batch(session, customer, mode="stage")
        add_chunk(session, dispatched, state=ChunkState.DISPATCHED)
        states.follow_suppliers(session)
        assert _states(session, dispatched) == [(*expected[:2], False)]
        assert _states(session, *kept) == before


@pytest.mark.parametrize(("ago", "condition"), [(1, None), (61, BatchCondition.STALLED)])
def test_a_report_has_the_time_left_as_a_range_unless_the_batch_makes_no_progress(
    session: Session, customer: Customer, *, ago: int, condition: BatchCondition | None
) -> None:
    now = session.scalars(select(func.now())).one()
    began, closes = now - timedelta(minutes=5), now + timedelta(hours=1)
    batch = make_batch(session, customer, created_at=began, started_at=began, runs_until=closes)
    for place in range(20):
        at = now - timedelta(seconds=ago + place)
        add_chunk(session, batch, place, worked=100, worked_at=at, counts={"VALID": 100})
    add_chunk(session, batch, 90, counts={"PENDING": 5_000})
    report = control.report_batch(session, batch)
    assert (report.condition, report.runs_until) == (condition, closes)
    assert report.rate is not None
    if condition:
        assert (report.time_left_low, report.time_left, report.time_left_high) == (None, None, None)
    else:
        assert report.time_left_low and report.time_left and report.time_left_high
        assert report.time_left_low < report.time_left < report.time_left_high


@pytest.mark.parametrize("earlier", [0, 1])
def test_a_wave_waits_for_the_first_undo_of_any_wave_of_its_plan(
    session: Session, customer: Customer, other: Customer, earlier: int
) -> None:
    plan = make_plan(session, customer, WaveState.APPROVED, WaveState.WAITING)
    elsewhere = make_plan(session, other, WaveState.WAITING)
    first, second = waves = list_waves(session, plan.id)
    add_undo(session, customer, batch_id=first.batch_id, finished_at=MOMENT)
    undo = add_undo(session, customer, batch_id=waves[earlier].batch_id)
    session.flush()
    second_undo = add_undo(session, customer, batch_id=waves[1 - earlier].batch_id)
    running = {waves[earlier].batch_id: undo.id, waves[1 - earlier].batch_id: second_undo.id}
    assert find_undos_of_plans(session, [plan.id, elsewhere.id]) == running
    assert find_undos_of_plans(session, [elsewhere.id]) == {}
    expected = f"^Undo {undo.id} of accounts of this plan is running. Wait until it has ended, or cancel it.$"
    with pytest.raises(BatchStateError, match=expected):
        require_no_undo(session, batch_of(session, second))
    for wave in list_waves(session, elsewhere.id):
        require_no_undo(session, batch_of(session, wave))
    require_no_undo(session, make_batch(session, customer))
    session.execute(update(Undo).values(finished_at=MOMENT))
    require_no_undo(session, batch_of(session, second))
