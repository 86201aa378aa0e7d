"""The states of batches: who may change what, and what the feed changes by itself."""

import pytest
from sqlalchemy import func, select, update
from sqlalchemy.orm import Session, sessionmaker

from migration_service.db.base import new_id
from migration_service.errors import BatchStateError
from migration_service.models import ApiKey, Batch
from migration_service.services.batches.states import (
    CANCEL,
    PAUSE,
    REOPEN,
    RESUME,
    change_batch,
    complete_batches,
    follow_keys,
    follow_suppliers,
    pause_for,
)
from migration_service.services.setup.suppliers import set_status
from migration_service.states import BatchState, ChunkState, SupplierStatus
from support.factories import Customer, make_customer
from unit.services.batches.batch_rows import add_chunk, make_batch

_OPEN = (BatchState.RUNNING, BatchState.WAITING)
_SOURCES = {
    "pause": (PAUSE, {"RUNNING", "WAITING"}, "PAUSED"),
    "resume": (RESUME, {"PAUSED", "STOPPED"}, "RUNNING"),
    "cancel": (CANCEL, {"RUNNING", "WAITING", "PAUSED", "STOPPED"}, "CANCELLED"),
    "reopen": (REOPEN, {"COMPLETED"}, "RUNNING"),
}


def _states(session: Session, *batches: Batch) -> list[tuple[str, str | None, bool]]:
    """Return the state and the reason of each batch, and whether it is over."""
    session.expire_all()
    return [(it.state, it.reason, it.finished_at is not None) for it in batches]


@pytest.mark.parametrize("state", BatchState)
@pytest.mark.parametrize("name", _SOURCES)
def test_a_change_is_possible_from_its_states_only(
    session: Session, customer: Customer, name: str, state: BatchState
) -> None:
    change, sources, target = _SOURCES[name]
    before = {"reason": "why", "finished_at": func.now()}
    batch = make_batch(session, customer, state=state, **before)
    if state not in sources:
        with pytest.raises(BatchStateError, match=f"The batch is {state}. This is only possible if it is"):
            change_batch(session, batch, change)
        return
    change_batch(session, batch, change)
    session.flush()
    assert _states(session, batch) == [(target, None, target == "CANCELLED")]
    assert (batch.brake_since is not None) is (target == "RUNNING")
    assert (batch.runs_since is not None) is (target == "RUNNING")


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
    complete_batches(session)
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
        follow_keys(session)
        assert _states(session, *paused) == [("PAUSED", "api_key_revoked", False)] * 2
        assert [state for state, _, _ in _states(session, *kept)] == ["RUNNING", "RUNNING", "COMPLETED"]


def test_a_batch_that_runs_is_paused_once_and_no_other_one(session: Session, customer: Customer) -> None:
    batches = [make_batch(session, customer, state=state) for state in _OPEN]
    other = make_batch(session, customer)
    for batch in batches:
        paused = pause_for(session, batch.id, "window_closed")
        assert paused is not None
        assert paused.organisation_id == customer.organisation_id
        assert pause_for(session, batch.id, "window_closed") is None
    assert pause_for(session, new_id(), "window_closed") is None
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
        follow_suppliers(session)
        assert _states(session, *following) == [expected] * len(sources)
        assert [it.runs_since is not None for it in following] == [expected[0] == "RUNNING"] * len(sources)
        assert _states(session, *kept) == before


def test_a_change_sees_what_another_session_has_changed(
    sessions: sessionmaker[Session], customer: Customer
) -> None:
    with sessions() as session:
        batch = make_batch(session, customer)
        session.commit()
        with sessions.begin() as other:
            other.execute(update(Batch).values(state=BatchState.COMPLETED))
        with pytest.raises(BatchStateError, match=r"The batch is COMPLETED\. .* RUNNING or WAITING"):
            change_batch(session, batch, PAUSE)


def test_a_changed_batch_is_locked(sessions: sessionmaker[Session], customer: Customer) -> None:
    with sessions() as session:
        batch = make_batch(session, customer)
        session.commit()
        change_batch(session, batch, PAUSE)
        with sessions() as other:
            free = select(Batch.id).where(Batch.id == batch.id).with_for_update(skip_locked=True)
            assert other.scalars(free).all() == []
