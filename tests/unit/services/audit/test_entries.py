"""The audit: nobody can change its entries, and the hashes of the days reveal it if somebody did."""

import secrets
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any

import psycopg
import pytest
from psycopg import sql
from sqlalchemy import event, select, text
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session, sessionmaker

from migration_service.db.engine import make_engine, make_sessionmaker
from migration_service.db.revisions import upgrade
from migration_service.errors import AuditCursorError
from migration_service.models import AuditDay, AuditEntry, Event, Organisation
from migration_service.origin import ActorKind, Origin, acting_as
from migration_service.services.audit import chain
from migration_service.services.audit.chain import Verification, remove_days, seal_days, verify_chain
from migration_service.services.audit.entries import AuditAction, record
from migration_service.services.audit.trail import TrailFilter, read_trail, stream_trail
from support.audit import audited
from support.servers import EmbeddedServers

CHANGES = [
    "UPDATE audit_entry SET actor = 'nobody'",
    "DELETE FROM audit_entry",
    "TRUNCATE audit_entry",
    "INSERT INTO audit_day VALUES (current_date, 0, '', '')",
    "UPDATE audit_day SET entries = 0",
    "DELETE FROM audit_day",
    "TRUNCATE audit_day",
]


@pytest.fixture(scope="module")
def empty(embedded_servers: EmbeddedServers) -> Iterator[str]:
    """The name of a database with the tables, which is the template of others."""
    # With a name of its own, because a mutation test can end before it is dropped.
    url = _named(embedded_servers, f"audit_empty_{secrets.token_hex(4)}")
    _create(embedded_servers, url, "template1")
    upgrade(url.render_as_string(hide_password=False))
    yield str(url.database)
    _drop(embedded_servers, url)


@pytest.fixture
def database(embedded_servers: EmbeddedServers, empty: str) -> Iterator[str]:
    """The address of a new database on the server that all tests share."""
    url = _named(embedded_servers, f"audit_{secrets.token_hex(4)}")
    _create(embedded_servers, url, empty)
    yield url.render_as_string(hide_password=False)
    _drop(embedded_servers, url)


def _named(servers: EmbeddedServers, name: str) -> URL:
    return make_url(servers.database_url).set(database=name)


def _create(servers: EmbeddedServers, url: URL, template: str) -> None:
    names = (sql.Identifier(str(name)) for name in (url.database, template, url.username))
    with servers.connect_as_superuser() as admin:
        admin.execute(sql.SQL("CREATE DATABASE {} TEMPLATE {} OWNER {}").format(*names))


def _drop(servers: EmbeddedServers, url: URL) -> None:
    with servers.connect_as_superuser() as admin:
        admin.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(str(url.database))))


@pytest.fixture
def own(database: str) -> Iterator[sessionmaker[Session]]:
    """Sessions on that database, as the owner of its tables."""
    engine = make_engine(database, pool_size=2, max_overflow=0, application_name="tests")
    yield make_sessionmaker(engine)
    engine.dispose()


@pytest.fixture
def runtime(
    embedded_servers: EmbeddedServers, database: str, own: sessionmaker[Session]
) -> Iterator[sessionmaker[Session]]:
    """Sessions of a role that may read and write every table, but owns none."""
    role = f"runtime_{secrets.token_hex(4)}"
    with embedded_servers.connect_as_superuser() as admin:
        admin.execute(sql.SQL("CREATE ROLE {} LOGIN PASSWORD 'runtime'").format(sql.Identifier(role)))
    with own.begin() as session:
        session.execute(text(f"GRANT ALL ON ALL TABLES IN SCHEMA public TO {role}"))
        session.execute(text(f"GRANT ALL ON ALL SEQUENCES IN SCHEMA public TO {role}"))
    url = make_url(database).set(username=role, password="runtime").render_as_string(hide_password=False)
    engine = make_engine(url, pool_size=2, max_overflow=0, application_name="tests")
    yield make_sessionmaker(engine)
    engine.dispose()
    with own.begin() as session:
        session.execute(text(f"REVOKE ALL ON ALL TABLES IN SCHEMA public FROM {role}"))
        session.execute(text(f"REVOKE ALL ON ALL SEQUENCES IN SCHEMA public FROM {role}"))
    with embedded_servers.connect_as_superuser() as admin:
        admin.execute(sql.SQL("DROP ROLE {}").format(sql.Identifier(role)))


def _fill(own: sessionmaker[Session], *ages: int, timeline: int = 1) -> None:
    """Add an entry of each of these ages in days, without the trigger, which would set the current time."""
    with own.begin() as session:
        session.execute(text("ALTER TABLE audit_entry DISABLE TRIGGER audit_guard"))
        for age in ages:
            moment = datetime.now(UTC) - timedelta(days=age)
            entry = {"actor_kind": "system_user", "actor": f"of {age}", "action": "test.done"}
            session.add(AuditEntry(at=moment, outcome="DONE", timeline=timeline, **entry))
        session.flush()
        session.execute(text("ALTER TABLE audit_entry ENABLE TRIGGER audit_guard"))


def _tamper(own: sessionmaker[Session], table: str, statement: str) -> None:
    """Run a statement as the owner of the database could."""
    with own.begin() as session:
        session.execute(text(f"ALTER TABLE {table} DISABLE TRIGGER USER"))
        session.execute(text(statement))
        session.execute(text(f"ALTER TABLE {table} ENABLE TRIGGER USER"))


@pytest.mark.parametrize("statement", CHANGES)
def test_neither_the_runtime_role_nor_the_owner_changes_anything(
    own: sessionmaker[Session], runtime: sessionmaker[Session], statement: str
) -> None:
    _fill(own, 3)
    with own.begin() as session:
        seal_days(session)
    for sessions in (own, runtime):
        for keeper in ("off", "on") if sessions is runtime else ("off",):
            with sessions() as session:
                setting = {"keeper": keeper}
                session.execute(
                    text("SELECT set_config('migration_service.audit_keeper', :keeper, true)"), setting
                )
                with pytest.raises(DBAPIError, match="InsufficientPrivilege"):
                    session.execute(text(statement))


def test_the_runtime_role_can_only_add_current_entries_and_seal_and_remove_whole_days(
    own: sessionmaker[Session], runtime: sessionmaker[Session]
) -> None:
    _fill(own, 120, 100, 80)
    with runtime.begin() as session:
        forged = AuditEntry(
            at=datetime(2020, 1, 1, tzinfo=UTC),
            actor_kind="service",
            action="test.done",
            outcome="DONE",
            timeline=7,
        )
        session.add(forged)
    with runtime() as session:
        session.add(forged)
        session.refresh(forged)
        assert datetime.now(UTC) - forged.at < timedelta(hours=1)
        assert forged.timeline == 1
    with runtime.begin() as session:
        assert len(seal_days(session)) in (119, 120)
        assert seal_days(session) == []
        # A request to remove everything removes only what is older than ninety days.
        assert remove_days(session, after_days=0) == 2
        found = verify_chain(session)
    assert found.problems == []
    assert (found.entries, found.removed_days > 20) == (2, True)


def test_entries_are_kept_for_as_many_days_as_are_asked_for(own: sessionmaker[Session]) -> None:
    _fill(own, 112, 108)
    with own.begin() as session:
        seal_days(session)
        assert remove_days(session, after_days=110) == 1
        assert session.scalars(select(AuditEntry.actor)).all() == ["of 108"]


def test_each_organisation_is_told_the_head_of_a_day(own: sessionmaker[Session]) -> None:
    _fill(own, 2)
    with own.begin() as session:
        session.add_all([Organisation(name="One"), Organisation(name="Other")])
        session.flush()
        days = seal_days(session)
        told = session.scalars(select(Event).order_by(Event.organisation_id)).all()
        head = {"day": f"{days[-1]}", "head": verify_chain(session).head}
    assert [it.data for it in told if it.data["day"] == head["day"]] == [head, head]


def test_entries_of_days_that_are_not_sealed_are_not_removed(own: sessionmaker[Session]) -> None:
    _fill(own, 120)
    with own.begin() as session:
        assert remove_days(session, after_days=90) == 0
        assert verify_chain(session).problems[0].endswith("the day was not sealed. Does beat run?")


@pytest.mark.parametrize(
    ("table", "statement", "problem"),
    [
        ("audit_entry", "DELETE FROM audit_entry WHERE actor = 'of 5'", "sealed with 1 entries, and has 0"),
        ("audit_entry", "UPDATE audit_entry SET actor = 'x' WHERE actor = 'of 5'", "an entry was changed"),
        (
            "audit_entry",
            "INSERT INTO audit_entry (at, actor_kind, action, outcome) "
            "SELECT at, 'service', 'x', 'DONE' FROM audit_entry WHERE actor = 'of 5'",
            "sealed with 1 entries, and has 2",
        ),
        (
            "audit_entry",
            "INSERT INTO audit_entry (at, actor_kind, action, outcome) "
            "VALUES (now() - interval '20 days', 'service', 'x', 'DONE')",
            "there are entries before the first sealed day",
        ),
        ("audit_day", "DELETE FROM audit_day WHERE day = current_date - 5", "the day is missing"),
        ("audit_day", "DELETE FROM audit_day WHERE day > current_date - 4", "was not sealed"),
        ("audit_day", "DELETE FROM audit_day WHERE day < current_date - 6", "does not follow"),
        ("audit_day", "UPDATE audit_day SET entries = 0 WHERE day = current_date - 5", "does not follow"),
        ("audit_day", "UPDATE audit_day SET removed_at = now()", "it was removed, and has 1 entries"),
    ],
)
def test_every_change_is_detected(
    own: sessionmaker[Session], table: str, statement: str, problem: str
) -> None:
    _fill(own, 9, 5, 2)
    with own.begin() as session:
        seal_days(session)
        assert verify_chain(session).problems == []
    _tamper(own, table, statement)
    with own() as session:
        assert problem in " ".join(verify_chain(session).problems)


def test_a_verification_counts_days_and_entries_and_returns_the_newest_hash(
    own: sessionmaker[Session],
) -> None:
    with own() as session:
        assert verify_chain(session) == Verification(0, 0, 0, None, [], [])
    _fill(own, 4, 2, 2)
    with own.begin() as session:
        sealed = seal_days(session)
        newest = session.scalars(select(AuditDay).order_by(AuditDay.day.desc())).first()
        assert newest is not None
        head = newest.chain_sha256.hex()
        assert verify_chain(session) == Verification(len(sealed), 3, 0, head, [], [])
        assert verify_chain(session, head.upper()).problems == []


@pytest.mark.parametrize("sealed", [True, False])
def test_a_day_that_is_not_sealed_25_hours_after_its_end_is_a_problem(
    own: sessionmaker[Session], monkeypatch: pytest.MonkeyPatch, *, sealed: bool
) -> None:
    _fill(own, 5)
    with own.begin() as session:
        if sealed:
            day = seal_days(session)[-1] + timedelta(days=1)
        else:
            day = session.scalars(select(AuditEntry.at)).one().astimezone(UTC).date()
    end = datetime(day.year, day.month, day.day, tzinfo=UTC) + timedelta(days=1)

    class Clock(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> Any:
            return now

    monkeypatch.setattr(chain, "datetime", Clock)
    with own() as session:
        now = end + timedelta(hours=25)
        assert verify_chain(session).problems == []
        now += timedelta(microseconds=1)
        assert verify_chain(session).problems == [f"{day}: the day was not sealed. Does beat run?"]


def test_a_recomputed_chain_is_detected_with_a_known_head(
    own: sessionmaker[Session],
) -> None:
    _fill(own, 5, 3)
    with own.begin() as session:
        seal_days(session)
        head = verify_chain(session).head
    _tamper(own, "audit_entry", "DELETE FROM audit_entry WHERE actor = 'of 3'")
    _tamper(own, "audit_day", "DELETE FROM audit_day")
    with own.begin() as session:
        seal_days(session)
        assert verify_chain(session).problems == []
        assert verify_chain(session, head).problems == ["The known head is not in the chain."]
        assert session.scalars(select(AuditDay.day)).all()


@pytest.mark.parametrize(("timeline", "is_gap"), [(2, True), (1, False)])
def test_a_chain_that_was_recovered_names_its_gap_and_is_no_problem(
    own: sessionmaker[Session], *, timeline: int, is_gap: bool
) -> None:
    _fill(own, 9, 5)
    with own.begin() as session:
        seal_days(session)
        head = verify_chain(session).head
    # A backup of seven days ago: neither the entry nor the seals of later days are in it.
    _tamper(own, "audit_entry", "DELETE FROM audit_entry WHERE actor = 'of 5'")
    _tamper(own, "audit_day", "DELETE FROM audit_day WHERE day > current_date - 7")
    _fill(own, 1, timeline=timeline)
    with own.begin() as session:
        seal_days(session)
        found = verify_chain(session, head)
    assert bool(found.problems) is not is_gap
    assert ["timeline 1 to 2" in gap or "The known head" in gap for gap in found.gaps] == [
        True,
        True,
    ] * is_gap


def test_an_act_and_its_entry_are_committed_together(sessions: sessionmaker[Session]) -> None:
    subject = secrets.token_hex(8)
    with pytest.raises(RuntimeError), sessions.begin() as session:
        record(session, AuditAction.TEAM_CREATED, "operations_team", subject)
        session.flush()
        raise RuntimeError
    assert audited(sessions, subject=subject) == []


def test_pages_of_the_audit_neither_repeat_nor_omit_entries(
    sessions: sessionmaker[Session],
) -> None:
    request_id = secrets.token_hex(8)
    with acting_as(Origin(kind=ActorKind.SYSTEM_USER, request_id=request_id)):
        for number in range(7):
            with sessions.begin() as session:
                record(session, AuditAction.TEAM_CREATED, "operations_team", number, details={"n": number})
    with sessions.begin() as session:
        wanted = TrailFilter(request_id=request_id)
        pages, cursor = [], None
        while True:
            page, cursor = read_trail(session, wanted, limit=3, cursor=cursor)
            pages.append([entry["subject"] for entry in page])
            if cursor is None:
                break
        assert pages == [["6", "5", "4"], ["3", "2", "1"], ["0"]]
        session.execute(text("SET LOCAL statement_timeout = '1h'"))
        list(stream_trail(session, wanted))
        assert session.scalar(text("SHOW statement_timeout")) == "0", "an export takes as long as it takes"


def test_entries_of_one_moment_are_on_one_page_each_and_a_page_reads_one_entry_more(
    sessions: sessionmaker[Session], embedded_servers: EmbeddedServers
) -> None:
    with psycopg.connect(embedded_servers.owner_url) as owner:
        owner.execute("ALTER TABLE audit_entry DISABLE TRIGGER audit_guard")
        owner.execute("""
            INSERT INTO audit_entry (at, actor_kind, action, subject, outcome)
            SELECT now(), 'service', 'test.done', number, 'DONE' FROM generate_series(1, 3) AS number
        """)
        owner.execute("ALTER TABLE audit_entry ENABLE TRIGGER audit_guard")
    found, read = [], list[int]()
    with sessions() as session:
        event.listen(
            session.connection(), "after_cursor_execute", lambda _, rows, *__: read.append(rows.rowcount)
        )
        wanted, cursor = TrailFilter(action="test.done"), None
        for _ in range(3):
            (entry,), cursor = read_trail(session, wanted, limit=1, cursor=cursor)
            found.append(entry["subject"])
    assert (found, read, cursor) == (["3", "2", "1"], [2, 2, 1], None)


@pytest.mark.parametrize(
    "cursor", ["", "|", "yesterday|1", "2026-01-01T00:00:00|x", "2026-01-01T00:00:00+00:00|"]
)
def test_an_invalid_cursor_is_refused(sessions: sessionmaker[Session], cursor: str) -> None:
    with sessions() as session, pytest.raises(AuditCursorError):
        read_trail(session, TrailFilter(), limit=1, cursor=cursor)
