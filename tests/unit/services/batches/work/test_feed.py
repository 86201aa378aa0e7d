"""Which chunks are dispatched: a few of each organisation, in turns, and never beyond a batch's limit."""

from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock, patch
from uuid import UUID

import pytest
from sqlalchemy import delete, func, select, text, update
from sqlalchemy.orm import Session, sessionmaker

from migration_service.db.base import new_id
from migration_service.models import ApiKey, Batch, BatchChunk, ImportSupplier
from migration_service.services.batches.work.chunks import ChunkKey
from migration_service.services.batches.work.feed import (
    dispatch_chunks,
    dispatch_vendor_chunks,
    recover_chunks,
    take_chunk,
)
from migration_service.tasks import batches
from support.factories import Customer
from support.rows import add_chunk, make_batch
from unit.services.batches.batch_rows import seconds, without_indexes


def _batch(session: Session, customer: Customer, chunks: int, **values: Any) -> Batch:
    batch = make_batch(session, customer, **values)
    for first in range(chunks, 0, -1):
        add_chunk(session, batch, first, first)
    return batch


def _dispatched(session: Session, batch: Batch) -> list[int]:
    """Return the first lines of the chunks in the queue."""
    chunks = select(BatchChunk.first_line).where(BatchChunk.batch_id == batch.id)
    return list(
        session.scalars(chunks.where(BatchChunk.state == "DISPATCHED").order_by(BatchChunk.first_line))
    )


def test_an_organisation_has_so_many_chunks_in_the_queue_and_its_batches_take_turns(
    session: Session, customer: Customer, other: Customer
) -> None:
    one, two = (_batch(session, customer, 5) for _ in range(2))
    theirs = _batch(session, other, 1)
    without_indexes(session)
    found = dispatch_chunks(session, 3)
    assert len(found) == 4
    assert {(one.id, 1), (two.id, 1), (theirs.id, 1)} < {*found}
    # Those that come first for their organisation come first.
    assert {batch_id == theirs.id for batch_id, _ in found[:2]} == {True, False}
    assert found[-1] in {(one.id, 2), (two.id, 2)}
    assert sorted([*_dispatched(session, one), *_dispatched(session, two)]) == [1, 1, 2]
    assert dispatch_chunks(session, 3) == []
    session.execute(delete(BatchChunk).where(BatchChunk.batch_id == one.id, BatchChunk.state == "DISPATCHED"))
    assert dispatch_chunks(session, 3)


def test_an_older_batch_does_not_keep_a_newer_one_waiting_until_it_ends(
    session: Session, customer: Customer
) -> None:
    _batch(session, customer, 500)
    newer = _batch(session, customer, 1)
    for _ in range(200):
        ((batch_id, _),) = dispatch_chunks(session, 1)
        if batch_id == newer.id:
            return
        session.execute(update(BatchChunk).where(BatchChunk.state == "DISPATCHED").values(state="DONE"))
    pytest.fail("the newer batch got no turn")


def test_who_has_few_chunks_in_the_queue_comes_first(
    session: Session, customer: Customer, other: Customer
) -> None:
    busy = _batch(session, customer, 4)
    dispatch_chunks(session, 2)
    idle = _batch(session, other, 1)
    assert dispatch_chunks(session, 3) == [(idle.id, 1), (busy.id, 3)]


def test_workers_take_the_chunks_of_organisations_in_turns(
    session: Session, customer: Customer, other: Customer
) -> None:
    busy, idle = _batch(session, customer, 4), _batch(session, other, 2)
    dispatch_chunks(session, 4)
    earlier = update(BatchChunk).where(BatchChunk.batch_id == busy.id)
    session.execute(earlier.values(dispatched_at=func.now() - seconds(1)))
    paused = _batch(session, other, 0, state="PAUSED")
    add_chunk(session, paused, state="DISPATCHED", dispatched_at=func.now())
    assert take_chunk(session, asks_vendors=True) is None
    taken = [take_chunk(session, asks_vendors=False) for _ in range(7)]
    turns = [(busy, 1), (idle, 1), (busy, 2), (idle, 2), (busy, 3), (busy, 4)]
    assert taken == [*(ChunkKey(batch.id, line) for batch, line in turns), None]


def test_a_small_batch_comes_before_a_large_one_of_another_organisation_that_had_the_workers(
    session: Session, customer: Customer, other: Customer
) -> None:
    large, small = _batch(session, customer, 5), _batch(session, other, 2)
    dispatch_chunks(session, 5)
    # A worker has processed a part of the second chunk, which waits again.
    for line, state, passed in ((1, "DONE", 60.0), (2, "DISPATCHED", 4.0), (3, "DONE", 4.0)):
        done = update(BatchChunk).where(BatchChunk.batch_id == large.id, BatchChunk.first_line == line)
        moments = {"worked_at": func.now() - seconds(passed), "dispatched_at": func.now() - seconds(1)}
        session.execute(done.values(state=state, **moments))
    taken = [take_chunk(session, asks_vendors=False) for _ in range(5)]
    turns = [(small, 1), (small, 2), (large, 2), (large, 4), (large, 5)]
    assert taken == [ChunkKey(batch.id, line) for batch, line in turns]


def test_two_workers_take_different_chunks(sessions: sessionmaker[Session], customer: Customer) -> None:
    with sessions.begin() as session:
        _batch(session, customer, 2)
        dispatch_chunks(session, 2)
    with sessions.begin() as one, sessions.begin() as two:
        taken = [take_chunk(session, asks_vendors=False) for session in (one, two, two)]
    assert [key and key.first_line for key in taken] == [1, 2, None]


def test_only_pending_chunks_of_running_batches_that_are_due_are_dispatched(
    session: Session, customer: Customer
) -> None:
    for state in ("PAUSED", "WAITING", "STOPPED", "CANCELLED", "COMPLETED"):
        _batch(session, customer, 1, mode="validate", state=state)
    batch = _batch(session, customer, 0)
    add_chunk(session, batch, 1, state="DONE")
    add_chunk(session, batch, 2, not_before=func.now() + seconds(60))
    add_chunk(session, batch, 3)
    assert dispatch_chunks(session, 8) == [(batch.id, 3)]


def test_batches_follow_their_keys_and_suppliers_before_anything_is_dispatched(
    session: Session, customer: Customer, other: Customer
) -> None:
    key_id = session.scalars(select(ApiKey.id).where(ApiKey.organisation_id == other.organisation_id)).one()
    theirs = _batch(session, other, 1, api_key_id=key_id)
    mine = _batch(session, customer, 1, mode="stage")
    session.execute(update(ApiKey).values(revoked_at=func.now()))
    session.execute(update(ImportSupplier).values(status="Paused"))
    assert dispatch_chunks(session, 8) == []
    for batch, expected in (
        (theirs, ("PAUSED", "api_key_revoked")),
        (mine, ("WAITING", "import_supplier_paused")),
    ):
        session.refresh(batch)
        assert (batch.state, batch.reason) == expected


def test_after_a_chunk_only_its_batch_follows_and_completes(session: Session, customer: Customer) -> None:
    ended, other, revoked = (_batch(session, customer, 0) for _ in range(3))
    key_id = session.scalars(
        select(ApiKey.id).where(ApiKey.organisation_id == customer.organisation_id)
    ).one()
    revoked.api_key_id = key_id
    session.execute(update(ApiKey).values(revoked_at=func.now()))
    for batch in (ended, other):
        add_chunk(session, batch, 1, state="DONE")
    add_chunk(session, revoked, 1)

    def states_after(batch_id: UUID | None) -> list[str]:
        dispatch_chunks(session, 8, batch_id)
        session.expire_all()
        return [batch.state for batch in (ended, other, revoked)]

    assert states_after(ended.id) == ["COMPLETED", "RUNNING", "RUNNING"]
    assert states_after(revoked.id) == ["COMPLETED", "RUNNING", "PAUSED"]
    assert states_after(None) == ["COMPLETED", "COMPLETED", "PAUSED"]


def test_batches_that_ask_vendors_have_a_share_of_their_own(session: Session, customer: Customer) -> None:
    accounts = _batch(session, customer, 3)
    vendors = _batch(session, customer, 3, mode="import", kind="payment-instructions")
    assert dispatch_vendor_chunks(session, 2) == [(vendors.id, 1), (vendors.id, 2)]
    assert dispatch_chunks(session, 2) == [(accounts.id, 1), (accounts.id, 2)]
    assert dispatch_vendor_chunks(session, 3) == [(vendors.id, 3)]


def test_chunks_of_a_batch_that_is_over_are_not_in_the_queue(session: Session, customer: Customer) -> None:
    over = _batch(session, customer, 0, finished_at=func.now(), state="CANCELLED")
    add_chunk(session, over, 1, state="DISPATCHED")
    batch = _batch(session, customer, 2)
    assert dispatch_chunks(session, 1) == [(batch.id, 1)]


@pytest.mark.parametrize(
    ("per_minute", "worked", "expected"),
    [
        (1, [], 1),  # at least one at a time
        (1, ["queue"], 0),
        (600, [], 1),  # 600 a minute are 100 in ten seconds, and a chunk counts for a hundred
        (1_800, [], 3),
        (1_800, ["queue", "queue"], 1),
        (1_800, [9, "queue"], 1),
        (1_800, [11], 3),
        (60, [9], 0),  # a chunk has ten lines then
        (60, [11], 1),
        (3, [19], 0),  # one line in twenty seconds
        (3, [21], 1),
        (None, [1, 1, 1, "queue", "queue"], 5),
    ],
)
def test_a_batch_with_a_limit_has_as_many_chunks_as_the_limit_allows(
    session: Session, customer: Customer, per_minute: int | None, worked: list[int | str], expected: int
) -> None:
    """`worked` has the seconds since a chunk was processed, or that it is in the queue."""
    batch = _batch(session, customer, 5, lines_per_minute=per_minute)
    for first, ago in enumerate(worked, 100):
        if ago == "queue":
            add_chunk(session, batch, first, state="DISPATCHED")
        else:
            add_chunk(session, batch, first, state="DONE", worked_at=func.now() - seconds(ago))
    other = _batch(session, customer, 0)
    add_chunk(session, other, 1, state="DONE", worked_at=func.now())
    assert len(dispatch_chunks(session, 20)) == expected


def test_claimed_chunks_whose_worker_is_gone_are_released_after_five_seconds(
    sessions: sessionmaker[Session], customer: Customer
) -> None:
    with sessions() as session:
        batch = _batch(session, customer, 0)
        attempts = [new_id()]
        lost, held, recent = (
            add_chunk(
                session,
                batch,
                first,
                state="DISPATCHED",
                dispatched_at=func.now() - seconds(ago),
                attempts=attempts,
            )
            for first, ago in ((1, 3_600), (2, 3_600), (3, 4))
        )
        done = add_chunk(session, batch, 4, state="DONE", dispatched_at=func.now() - seconds(3_600))
        add_chunk(session, _batch(session, customer, 0), 1, state="DISPATCHED", dispatched_at=func.now())
        session.commit()
        with sessions() as other:
            assert other.scalars(select(BatchChunk).where(BatchChunk.first_line == 2).with_for_update()).one()
            assert recover_chunks(session) == [attempts], "which hold slots"
            session.commit()
        for chunk in (lost, held, recent, done):
            session.refresh(chunk)
        assert [it.state for it in (lost, held, recent, done)] == [
            "PENDING",
            "DISPATCHED",
            "DISPATCHED",
            "DONE",
        ]
        assert (lost.attempts, held.attempts) == (None, attempts)


@pytest.mark.parametrize(("ago", "expected"), [(14, 0), (16, 1), (-3_600, 1)])
def test_a_chunk_counts_as_lost_after_fifteen_seconds_or_if_the_clock_was_set_back(
    session: Session, customer: Customer, ago: int, expected: int
) -> None:
    batch = _batch(session, customer, 0)
    add_chunk(session, batch, state="DISPATCHED", dispatched_at=func.now() - seconds(ago))
    assert len(recover_chunks(session)) == expected


@pytest.mark.parametrize(
    ("ago", "other", "expected"),
    [
        (89, {"state": "DISPATCHED", "dispatched_at": 59}, 0),
        (91, {"state": "DISPATCHED", "dispatched_at": 59}, 1),
        (89, {"state": "DISPATCHED", "dispatched_at": 61}, 1),
        (89, {"state": "DONE", "worked_at": 19}, 0),
        (89, {"state": "DONE", "worked_at": 21}, 1),
        (16, {"state": "PENDING"}, 1),
    ],
)
def test_a_message_that_waits_behind_those_of_busy_workers_is_not_lost(
    sessions: sessionmaker[Session], customer: Customer, *, ago: int, other: dict[str, Any], expected: int
) -> None:
    with sessions.begin() as session:
        batch = _batch(session, customer, 0)
        add_chunk(session, batch, 1, state="DISPATCHED", dispatched_at=func.now() - seconds(ago))
        values = {key: func.now() - seconds(it) if isinstance(it, int) else it for key, it in other.items()}
        add_chunk(session, batch, 2, attempts=[new_id()] if "dispatched_at" in other else None, **values)
    with sessions() as worker, sessions() as session:
        worker.scalars(select(BatchChunk).where(BatchChunk.first_line == 2).with_for_update()).one()
        assert len(recover_chunks(session)) == expected


def test_chunks_are_published_after_the_commit_until_one_cannot_be(
    sessions: sessionmaker[Session], customer: Customer
) -> None:
    with sessions.begin() as session:
        accounts = _batch(session, customer, 2)
        vendors = _batch(session, customer, 1, mode="import", kind="payment-instructions")
        finished = _batch(session, customer, 0)

    def committed(*_: object, **__: object) -> bool:
        with sessions() as session:
            return bool(
                session.execute(text("SELECT count(*) FROM batch_chunk WHERE state = 'DISPATCHED'")).scalar()
            )

    def feed(in_flight: int, publish: Mock) -> list[tuple[Any, ...]]:
        app: Any = SimpleNamespace(settings=SimpleNamespace(batch_chunks_in_flight=in_flight))
        with patch.object(batches, "publish", publish):
            batches.feed_batches(app, sessions)
        return [it.args[1:] for it in publish.call_args_list]

    published = feed(5, Mock(side_effect=committed))
    assert published == [
        ("batches.run_chunk", str(accounts.id), 1),
        ("batches.run_chunk", str(accounts.id), 2),
        ("batches.run_vendor_chunk", str(vendors.id), 1),
    ]
    with sessions.begin() as session:
        assert session.get_one(Batch, finished.id).state == "COMPLETED"
        for batch, first in ((accounts, 7), (accounts, 8), (vendors, 7)):
            add_chunk(session, session.get_one(Batch, batch.id), first)
    assert feed(9, Mock(return_value=False)) == [("batches.run_chunk", str(accounts.id), 7)]


def test_chunks_that_somebody_has_locked_are_left_for_later(
    sessions: sessionmaker[Session], customer: Customer
) -> None:
    with sessions() as session:
        batch = _batch(session, customer, 2)
        session.commit()
        with sessions() as other:
            locked = select(BatchChunk).where(BatchChunk.first_line == 1).with_for_update()
            assert other.scalars(locked).one()
            assert dispatch_chunks(session, 8) == [(batch.id, 2)]
            session.commit()
        assert dispatch_chunks(session, 8) == [(batch.id, 1)]
