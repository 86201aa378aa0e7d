"""Removing old events: only from the beginning, and never what a reader still needs."""

from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import func, select, text, update
from sqlalchemy.orm import Session, sessionmaker

from migration_service.errors import EventCursorExpiredError
from migration_service.models import Event, EventConsumer
from migration_service.schemas.events import EventType
from migration_service.services.events.consumers import advance_consumer, forget_consumer
from migration_service.services.events.feed import open_feed
from migration_service.services.events.history import cursor_writer
from migration_service.services.events.reading import Position, read_events
from migration_service.services.events.recording import record
from migration_service.services.events.retention import remove_old_events
from support.factories import Customer

DAYS, CONSUMER_DAYS = 30, 60


class Kept:
    """The events of an organisation, by their age in days."""

    def __init__(self, sessions: sessionmaker[Session], customer: Customer) -> None:
        self.sessions, self.owner = sessions, customer.organisation_id

    def tell(self, *ages: int) -> None:
        """Record events of these ages."""
        for age in ages:
            with self.sessions.begin() as session:
                self.tell_in(session, age)

    def tell_in(self, session: Session, age: int) -> None:
        data = {"prefix": "ami_0", "expires_at": "2026-03-01T10:15:00Z", "days": age}
        record(session, EventType.API_KEY_EXPIRES, data, organisation_id=self.owner)
        created_at = datetime.now(UTC) - timedelta(days=age)
        by_age = text("data ->> 'days' = :age").bindparams(age=str(age))
        session.execute(update(Event).where(by_age).values(created_at=created_at))

    def remove(self, limit: int = 100) -> int:
        with self.sessions.begin() as session:
            return remove_old_events(session, after_days=DAYS, consumer_days=CONSUMER_DAYS, limit=limit)

    def ages(self) -> list[int]:
        order = (Event.generation, Event.transaction_id, Event.id)
        with self.sessions.begin() as session:
            return [event.data["days"] for event in session.scalars(select(Event).order_by(*order))]

    def positions(self) -> list[Position]:
        with self.sessions.begin() as session:
            return [event.position for event in read_events(session, self.owner, None, limit=100).events]

    def consume(self, name: str, position: Position | None, *, asked_days_ago: int = 0) -> None:
        asked_at = func.now() - timedelta(days=asked_days_ago)
        with self.sessions.begin() as session:
            advance_consumer(session, self.owner, name, position)
            session.execute(update(EventConsumer).where(EventConsumer.name == name).values(asked_at=asked_at))


@pytest.fixture
def kept(sessions: sessionmaker[Session], customer: Customer) -> Kept:
    return Kept(sessions, customer)


def test_old_events_go_except_the_last_which_marks_what_was_removed(kept: Kept) -> None:
    kept.tell(33, 32, 31, 29, 1)
    assert (kept.remove(), kept.ages()) == (2, [31, 29, 1])
    assert (kept.remove(), kept.ages()) == (0, [31, 29, 1])


def test_pieces_are_removed_from_the_beginning(kept: Kept) -> None:
    kept.tell(36, 35, 34, 33, 32, 31)
    assert [kept.remove(limit=2) for _ in range(4)] == [2, 2, 1, 0]
    assert kept.ages() == [31]


def test_nothing_behind_a_younger_event_goes(kept: Kept) -> None:
    kept.tell(33, 32, 29, 31)
    assert (kept.remove(), kept.ages()) == (1, [32, 29, 31])


def test_nothing_goes_that_is_not_below_the_horizon(kept: Kept) -> None:
    kept.tell(35, 34)
    with kept.sessions() as late:
        kept.tell_in(late, 33)
        kept.tell(32, 31)
        assert (kept.remove(), kept.ages()) == (1, [34, 32, 31])
        late.commit()
    assert (kept.remove(), kept.ages()) == (3, [31])


def test_what_a_consumer_has_not_passed_stays_until_it_is_given_up(kept: Kept) -> None:
    kept.tell(35, 34, 33, 32, 31)
    positions = kept.positions()
    kept.consume("fast", positions[3])
    kept.consume("slow", positions[1], asked_days_ago=CONSUMER_DAYS - 1)
    kept.consume("lost", None, asked_days_ago=CONSUMER_DAYS)
    assert (kept.remove(), kept.ages()) == (1, [34, 33, 32, 31])
    kept.consume("slow", None)
    assert kept.remove() == 0
    with kept.sessions.begin() as session:
        forget_consumer(session, kept.owner, "slow")
    assert (kept.remove(), kept.ages()) == (2, [32, 31])


def test_who_has_missed_events_is_told_and_who_has_not_reads_on(kept: Kept) -> None:
    kept.tell(33, 32, 31, 1)
    positions = kept.positions()
    kept.consume("slow", positions[0], asked_days_ago=CONSUMER_DAYS)
    kept.remove()
    with kept.sessions.begin() as session:
        history, _ = open_feed(session, kept.owner, None, None)
        write = cursor_writer(history, kept.owner)
        for position in positions[2:]:
            assert open_feed(session, kept.owner, write(position), None) == (history, position)
        for cursor, consumer in ((write(positions[1]), None), (None, "slow")):
            with pytest.raises(EventCursorExpiredError) as raised:
                open_feed(session, kept.owner, cursor, consumer)
            assert raised.value.cursor == "start"


def test_organisations_have_their_own(kept: Kept, other: Customer) -> None:
    kept.tell(33, 32)
    Kept(kept.sessions, other).tell(35, 34)
    kept.consume("slow", None)
    assert (kept.remove(), sorted(kept.ages())) == (1, [32, 33, 34])
