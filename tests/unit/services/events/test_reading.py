"""The order of events: none can appear behind a position that was read, however transactions commit."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import text
from sqlalchemy.orm import Session, sessionmaker

from migration_service.errors import EventCursorExpiredError
from migration_service.schemas.events import EventType
from migration_service.services.events.reading import EventPage, Position, read_events
from migration_service.services.events.recording import record, record_for_all
from support.factories import Customer

SEALED = {"day": "2026-02-28", "head": "00"}


def tell(session: Session, organisation_id: int, number: int, **supplier: int) -> None:
    """Record an event with this number."""
    data = {"prefix": f"ami_{number}", "expires_at": "2026-03-01T10:15:00Z", "days": number}
    record(session, EventType.API_KEY_EXPIRES, data, organisation_id=organisation_id, **supplier)


def read(
    sessions: sessionmaker[Session], owner: int, after: Position | None = None, **wanted: Any
) -> EventPage:
    with sessions.begin() as session:
        return read_events(session, owner, after, **({"limit": 100} | wanted))


def numbers(page: EventPage) -> Sequence[int]:
    return [
        int(event.body.partition('"days": ')[2].partition(",")[0].partition("}")[0]) for event in page.events
    ]


def test_a_late_commit_does_not_fall_behind_a_position_that_was_read(
    sessions: sessionmaker[Session], customer: Customer
) -> None:
    owner = customer.organisation_id
    with sessions.begin() as session:
        tell(session, owner, 0)
    first = read(sessions, owner)
    assert numbers(first) == [0]
    with sessions() as late:
        tell(late, owner, 1)
        with sessions.begin() as early:
            tell(early, owner, 2)
        # The second has committed, and waits for the first, whose number is lower.
        waiting = read(sessions, owner, first.position)
        assert (waiting.events, waiting.position) == ([], first.position)
        late.commit()
    assert numbers(read(sessions, owner, waiting.position)) == [1, 2]


def test_events_beyond_the_horizon_and_before_the_position_are_not_even_looked_at(
    sessions: sessionmaker[Session], customer: Customer
) -> None:
    owner = customer.organisation_id
    for number in range(300):
        with sessions.begin() as session:
            tell(session, owner, number)
    position = read(sessions, owner, limit=300).position
    looked_at = "SELECT idx_tup_fetch + seq_tup_read FROM pg_stat_xact_user_tables WHERE relname = 'event'"
    with sessions() as late:
        late.execute(text("SELECT pg_current_xact_id()"))
        with sessions.begin() as session:
            for number in range(300):
                tell(session, owner, number)
        with sessions.begin() as session:
            read_events(session, owner, position, types=["batch.ended"], limit=100)
            assert session.scalar(text(looked_at)) < 10


def test_one_that_is_rolled_back_holds_nothing_up(
    sessions: sessionmaker[Session], customer: Customer
) -> None:
    owner = customer.organisation_id
    with sessions() as lost:
        tell(lost, owner, 1)
        with sessions.begin() as session:
            tell(session, owner, 2)
        assert read(sessions, owner).events == []
        lost.rollback()
    assert numbers(read(sessions, owner)) == [2]


def test_the_events_of_a_transaction_are_in_the_order_in_which_they_were_recorded(
    sessions: sessionmaker[Session], customer: Customer
) -> None:
    with sessions.begin() as session:
        for number in range(20):
            tell(session, customer.organisation_id, number)
    assert numbers(read(sessions, customer.organisation_id)) == [*range(20)]


def test_pages_have_each_event_once(sessions: sessionmaker[Session], customer: Customer) -> None:
    owner = customer.organisation_id
    for number in range(3):
        with sessions.begin() as session:
            tell(session, owner, 2 * number)
            tell(session, owner, 2 * number + 1)
    found: list[int] = []
    position, has_more = None, True
    while has_more:
        page = read(sessions, owner, position, limit=4)
        found += numbers(page)
        position, has_more = page.position, page.has_more
    assert found == [*range(6)]
    assert read(sessions, owner, position) == EventPage([], position, has_more=False)


def test_a_position_is_behind_everything_that_was_left_out(
    sessions: sessionmaker[Session], customer: Customer, other: Customer
) -> None:
    owner = customer.organisation_id
    for supplier in (7, 8, 7):
        with sessions.begin() as session:
            tell(session, owner, supplier, import_supplier_id=supplier)
    with sessions.begin() as session:
        tell(session, other.organisation_id, 9)
        record_for_all(session, EventType.AUDIT_DAY_SEALED, SEALED)
    whole = read(sessions, owner)
    assert [event.type for event in whole.events] == [*["api_key.expires"] * 3, "audit.day_sealed"]
    none = read(sessions, owner, types=["account.created"])
    assert (none.events, none.position) == ([], whole.position)
    eighth = read(sessions, owner, import_supplier_ids=[8])
    assert (numbers(eighth), eighth.position) == ([8], whole.position)
    part = read(sessions, owner, import_supplier_ids=[7], limit=1)
    assert (part.position, part.has_more) == (whole.events[0].position, True)


def test_nobody_has_events_at_first(sessions: sessionmaker[Session], customer: Customer) -> None:
    assert read(sessions, customer.organisation_id) == EventPage([], None, has_more=False)
    assert read(sessions, customer.organisation_id, types=["account.created"]).position is None


@pytest.mark.parametrize("restored", [-1, -2])
def test_events_that_a_dump_brought_along_come_first_whatever_their_numbers(
    sessions: sessionmaker[Session], customer: Customer, restored: int
) -> None:
    owner = customer.organisation_id
    with sessions.begin() as session:
        tell(session, owner, 1)
        tell(session, owner, 2)
        session.execute(text("UPDATE event SET generation = :it, transaction_id = 10 ^ 15"), {"it": restored})
        tell(session, owner, 3)
    assert numbers(read(sessions, owner)) == [1, 2, 3]
    assert read(sessions, owner).events[0].position.generation == restored
    assert Position(restored, 10**15, UUID(int=2**128 - 1)) < read(sessions, owner).events[-1].position


def test_nothing_is_read_after_an_event_that_was_removed(
    sessions: sessionmaker[Session], customer: Customer
) -> None:
    for number in range(3):
        with sessions.begin() as session:
            tell(session, customer.organisation_id, number)
    first = read(sessions, customer.organisation_id).events[0].position
    with sessions.begin() as session:
        session.execute(text("DELETE FROM event WHERE data ->> 'days' < '2'"))
    with pytest.raises(EventCursorExpiredError):
        read(sessions, customer.organisation_id, first)
