"""Lists and counts of batches: whose, which, and in which order."""

from sqlalchemy import select
from sqlalchemy.orm import Session

from migration_service.models import Batch, OperationsTeam
from migration_service.origin import ActorKind, Origin, acting_as
from migration_service.services.batches.results.listing import BatchTotals, count_batches, list_batches
from migration_service.states import BatchKind, BatchState
from support.factories import Customer
from unit.services.batches.batch_rows import add_chunk, make_batch


def test_the_newest_batches_of_an_organisation_come_first(
    session: Session, customer: Customer, other: Customer
) -> None:
    first, second, third = (make_batch(session, customer) for _ in range(3))
    theirs = make_batch(session, other)
    own = customer.organisation_id

    def ids(**wanted: object) -> list[object]:
        return [it.batch_id for it in list_batches(session, organisation_id=own, **wanted)]  # type: ignore[arg-type]

    assert ids() == [third.id, second.id, first.id]
    assert ids(limit=2) == [third.id, second.id]
    assert ids(before=third.id) == [second.id, first.id]
    assert ids(before=first.id) == []
    everywhere = [it.batch_id for it in list_batches(session, organisation_id=None)]
    assert everywhere == [theirs.id, third.id, second.id, first.id]
    assert count_batches(session, organisation_id=own) == BatchTotals(3, 3, 0)
    assert count_batches(session, organisation_id=None) == BatchTotals(4, 4, 0)


def test_a_batch_is_listed_with_its_names_and_counts(
    session: Session, customer: Customer, other: Customer
) -> None:
    team = session.scalars(
        select(OperationsTeam).where(OperationsTeam.name == customer.operations_team)
    ).one()
    batch = make_batch(session, customer, operations_team_id=team.id, mode="import", name="N", lines=7)
    add_chunk(session, batch, counts={"IMPORTED": 3, "FAILED": 4})
    without_team = make_batch(session, other)
    found = {it.batch_id: it for it in list_batches(session, organisation_id=None)}
    assert len(found) == 2
    one = found[batch.id]
    assert (one.import_supplier, one.operations_team_name) == (customer.import_supplier, team.name)
    assert (one.mode, one.name, one.lines) == ("import", "N", 7)
    assert (one.counts["IMPORTED"], one.counts["FAILED"], one.counts["PENDING"]) == (3, 4, 0)
    assert found[without_team.id].operations_team_name is None
    assert found[without_team.id].import_supplier == other.import_supplier


def test_batches_are_wanted_by_supplier_kind_and_state(
    session: Session, customer: Customer, other: Customer
) -> None:
    wanted = make_batch(session, customer, kind="notes", state="PAUSED")
    make_batch(session, customer, kind="notes")
    make_batch(session, customer, state="PAUSED")
    make_batch(session, other, kind="notes", state="PAUSED")

    def count(**given: object) -> int:
        listed = list_batches(session, organisation_id=None, **given)  # type: ignore[arg-type]
        totals = count_batches(session, organisation_id=None, **given)  # type: ignore[arg-type]
        assert len(listed) == totals.batches
        return totals.batches

    notes, paused = BatchKind.NOTES, BatchState.PAUSED
    assert count() == 4
    assert count(import_supplier=customer.import_supplier) == 3
    assert count(kind=notes) == 3
    assert count(state=paused) == 3
    [found] = list_batches(
        session,
        organisation_id=customer.organisation_id,
        import_supplier=customer.import_supplier,
        kind=notes,
        state=paused,
    )
    assert found.batch_id == wanted.id
    assert count(import_supplier="nobody") == 0


def test_a_key_that_is_limited_sees_the_batches_of_its_suppliers(
    session: Session, customer: Customer, other: Customer
) -> None:
    batch: Batch = make_batch(session, customer)
    make_batch(session, other)
    limited = Origin(kind=ActorKind.API_KEY, import_supplier_ids=frozenset({batch.import_supplier_id}))
    with acting_as(limited):
        assert [it.batch_id for it in list_batches(session, organisation_id=None)] == [batch.id]
        assert count_batches(session, organisation_id=None).batches == 1
    with acting_as(Origin(kind=ActorKind.API_KEY, import_supplier_ids=frozenset())):
        assert list_batches(session, organisation_id=None) == []


def test_open_batches_are_those_that_need_somebody_or_are_worked_on(
    session: Session, customer: Customer
) -> None:
    for state in BatchState:
        make_batch(session, customer, state=state, reason="why")
    make_batch(session, customer, state=BatchState.PAUSED, reason="window_closed")
    found = list_batches(session, organisation_id=None, only_open=True)
    assert {it.state for it in found} == set(BatchState) - {"COMPLETED", "CANCELLED"}
    assert {it.reason for it in found} == {"why"}
    assert len(list_batches(session, organisation_id=None)) == len(BatchState) + 1
    # Running and waiting ones are processed; paused and stopped ones are held, unless a window opens again.
    assert count_batches(session, organisation_id=None) == BatchTotals(len(BatchState) + 1, 2, 2)
