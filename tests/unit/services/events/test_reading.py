"""The order of events, what holds them back, and what is removed."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from unittest.mock import Mock
from uuid import UUID

import psycopg
import pytest
from sqlalchemy import func, select, text, update
from sqlalchemy.orm import Session, sessionmaker

from migration_service.doctor import work_checks
from migration_service.doctor.diagnosis import Verdict
from migration_service.doctor.work_checks import check_events
from migration_service.errors import EventCursorExpiredError
from migration_service.models import Event, EventConsumer
from migration_service.schemas.events import EventType
from migration_service.services.events.consumers import advance_consumer, forget_consumer, open_feed
from migration_service.services.events.history import cursor_writer
from migration_service.services.events.horizon import find_holder
from migration_service.services.events.reading import EventPage, Position, read_events
from migration_service.services.events.recording import record, record_for_all
from migration_service.services.reporting.retention import remove_old_events
from support.factories import Customer
from support.servers import EmbeddedServers

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
    looked_at = """SELECT idx_tup_fetch + seq_tup_read FROM pg_stat_xact_user_tables
        WHERE relid = 'event'::regclass"""
    with sessions() as late:
        late.execute(text("SELECT pg_current_xact_id()"))
        with sessions.begin() as session:
            for number in range(300):
                tell(session, owner, number)
        with sessions.begin() as session:
            session.execute(text("SET LOCAL enable_seqscan = off"))  # as with statistics of a large table
            read_events(session, owner, position, types=["batch.ended"], limit=100)
            # Of the 600, the planner reads some at the ends of the index, once the table has been analysed.
            assert session.scalar(text(looked_at)) < 100


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


def test_nothing_holds_events_back_but_a_transaction_that_writes(sessions: sessionmaker[Session]) -> None:
    with sessions() as reading:
        reading.execute(text("SELECT FROM organisation"))
        with sessions.begin() as session:
            session.execute(text("SELECT pg_current_xact_id()"))
            holder = find_holder(session)
            assert holder is None or "of role autovacuum worker in database" in holder.name


@pytest.mark.parametrize("as_superuser", [False, True])
def test_the_doctor_names_the_session_that_holds_events_back(
    sessions: sessionmaker[Session],
    embedded_servers: EmbeddedServers,
    monkeypatch: pytest.MonkeyPatch,
    customer: Customer,
    as_superuser: bool,
) -> None:
    monkeypatch.setattr(work_checks, "_HELD_SECONDS", 0.0)
    parts = Mock(sessions=sessions)
    url = embedded_servers.database_url
    others = embedded_servers.connect_as_superuser() if as_superuser else psycopg.connect(url)
    with others as connection:
        connection.execute("SET application_name = 'a person'")
        connection.commit()
        connection.execute("BEGIN")
        connection.execute("SELECT pg_current_xact_id()")
        # When the transaction of a superuser began is nobody's business, but an event that waits for it is.
        with sessions.begin() as session:
            record(session, EventType.BATCH_ENDED, {}, organisation_id=customer.organisation_id)
        (finding,) = check_events(parts)
        pid = connection.info.backend_pid
        assert finding.verdict is Verdict.WARNING
        assert (
            f"session {pid} (a person) of role {'postgres' if as_superuser else 'migration_service'}"
            in finding.seen
        )
        assert "those of the last 0 s" in finding.seen
        assert f"SELECT pg_terminate_backend({pid})" in finding.advice
        connection.execute("COMMIT")
    (finding,) = check_events(parts)
    assert finding.verdict is Verdict.OK


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
    with kept.sessions.begin() as session:
        forget_consumer(session, kept.owner, "slow")
    assert (kept.remove(), sorted(kept.ages())) == (1, [32, 34]), "the last one of each stays"
