"""The audit: nobody can change its entries, and the hashes of the days reveal it if somebody did."""

import secrets
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, tzinfo
from pathlib import Path
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
#: Entries with what the database sets, and what would stand in for what its functions look at.
FORGED = [
    "INSERT INTO audit_entry (at, actor_kind, action, outcome) VALUES ('2020-01-01', 'service', 'x', 'DONE')",
    "INSERT INTO audit_entry (id, actor_kind, action, outcome) VALUES (1, 'service', 'x', 'DONE')",
    "INSERT INTO audit_entry (timeline, actor_kind, action, outcome) VALUES (7, 'service', 'x', 'DONE')",
    "CREATE TEMP TABLE pg_class (oid oid, relowner oid)",
    "CREATE TABLE retired_account_number (service_account_number text)",
    "CREATE FUNCTION public.sha256(text) RETURNS bytea LANGUAGE sql AS $$ SELECT ''::bytea $$",
    "SET session_replication_role = replica",
    "ALTER FUNCTION audit_guard() RESET ALL",
    "SELECT setval('audit_entry_id_seq', 1)",
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
    """Sessions of the role of the service, as `revisions upgrade` grants it."""
    role = f"runtime_{secrets.token_hex(4)}"
    with embedded_servers.connect_as_superuser() as admin:
        admin.execute(sql.SQL("CREATE ROLE {} LOGIN PASSWORD 'runtime'").format(sql.Identifier(role)))
    upgrade(database, runtime_role=role)
    url = make_url(database).set(username=role, password="runtime").render_as_string(hide_password=False)
    engine = make_engine(url, pool_size=2, max_overflow=0, application_name="tests")
    yield make_sessionmaker(engine)
    engine.dispose()
    with embedded_servers.postgres.connect_as_superuser(str(engine.url.database)) as admin:
        for statement in ("DROP OWNED BY {}", "DROP ROLE {}"):
            admin.execute(sql.SQL(statement).format(sql.Identifier(role)))


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


def _tamper(session: Session, table: str, statement: str) -> None:
    """Run a statement as the owner of the database could."""
    session.execute(text(f"ALTER TABLE {table} DISABLE TRIGGER USER"))
    session.execute(text(statement))
    session.execute(text(f"ALTER TABLE {table} ENABLE TRIGGER USER"))


def test_neither_the_runtime_role_nor_the_owner_changes_anything(
    own: sessionmaker[Session], runtime: sessionmaker[Session]
) -> None:
    _fill(own, 3)
    with own.begin() as session:
        chain.seal_days(session)
    keep = text("SELECT set_config('migration_service.audit_keeper', :keeper, true)")
    for sessions, keeper in ((own, "off"), (runtime, "off"), (runtime, "on")):
        for statement in CHANGES:
            with sessions() as session:
                session.execute(keep, {"keeper": keeper})
                with pytest.raises(DBAPIError, match="InsufficientPrivilege"):
                    session.execute(text(statement))


def test_the_runtime_role_forges_no_entry_and_makes_nothing_that_stands_in_for_a_table(
    runtime: sessionmaker[Session],
) -> None:
    for statement in FORGED:
        with runtime() as session, pytest.raises(DBAPIError, match="InsufficientPrivilege"):
            session.execute(text(statement))


def test_the_guard_looks_at_nothing_that_a_session_has_made(
    own: sessionmaker[Session], runtime: sessionmaker[Session]
) -> None:
    """Even if the role may change the audit and make tables, as in a database that was set up otherwise."""
    _fill(own, 3)
    role, database = (getattr(runtime.kw["bind"].url, name) for name in ("username", "database"))
    with own.begin() as session:
        chain.seal_days(session)
        session.execute(text(f"GRANT ALL ON audit_entry, audit_day TO {role}"))
        session.execute(text(f"GRANT TEMPORARY ON DATABASE {database} TO {role}"))
    for statement in ("DELETE FROM audit_entry", "UPDATE audit_day SET entries = 0"):
        with runtime() as session:
            session.execute(text("CREATE TEMP TABLE pg_class (oid oid, relowner oid)"))
            session.execute(
                text("""
                    INSERT INTO pg_temp.pg_class
                    SELECT oid, CAST(CAST(current_user AS regrole) AS oid) FROM pg_catalog.pg_class
                """)
            )
            session.execute(text("SET migration_service.audit_keeper = 'on'"))
            with pytest.raises(DBAPIError, match="InsufficientPrivilege"):
                session.execute(text(statement))


def test_the_runtime_role_can_add_current_entries_and_seal_and_remove_whole_days(
    own: sessionmaker[Session], runtime: sessionmaker[Session]
) -> None:
    _fill(own, 120, 100, 80)
    with runtime.begin() as session:
        entry = AuditEntry(actor_kind="service", action="test.done", outcome="DONE")
        session.add(entry)
        session.flush()
        session.refresh(entry)
        assert datetime.now(UTC) - entry.at < timedelta(hours=1)
        assert entry.timeline == 1
    with runtime.begin() as session:
        assert len(chain.seal_days(session)) in (119, 120)
        assert chain.seal_days(session) == {}
        # A request to remove everything removes only what is older than ninety days.
        assert chain.remove_days(session, after_days=0) == 2
        found = chain.verify_chain(session)
    assert found.problems == []
    assert (found.entries, found.removed_days > 20) == (2, True)


def test_every_function_finds_tables_in_one_schema_only(own: sessionmaker[Session]) -> None:
    found = text("""
        SELECT proname, proconfig[1] FROM pg_proc
        WHERE pronamespace = 'public'::regnamespace AND coalesce(proconfig[1], '') NOT IN (
            'search_path=pg_catalog, public, pg_temp', 'search_path=pg_catalog, pg_temp')
    """)
    with own.begin() as session:
        assert session.execute(found).all() == []
        assert session.scalar(text("SELECT proconfig FROM pg_proc WHERE proname = 'audit_guard'"))


def test_entries_are_kept_for_as_many_days_as_are_asked_for(own: sessionmaker[Session]) -> None:
    _fill(own, 112, 108)
    with own.begin() as session:
        chain.seal_days(session)
        assert chain.remove_days(session, after_days=110) == 1
        assert session.scalars(select(AuditEntry.actor)).all() == ["of 108"]


def test_each_organisation_is_told_the_head_of_a_day(own: sessionmaker[Session]) -> None:
    _fill(own, 2)
    with own.begin() as session:
        session.add_all([Organisation(name="One"), Organisation(name="Other")])
        session.flush()
        days = [*chain.seal_days(session)]
        told = session.scalars(select(Event).order_by(Event.organisation_id)).all()
        head = {"day": f"{days[-1]}", "head": chain.verify_chain(session).head}
    assert [it.data for it in told if it.data["day"] == head["day"]] == [head, head]


def test_entries_of_days_that_are_not_sealed_are_not_removed(own: sessionmaker[Session]) -> None:
    _fill(own, 120)
    with own.begin() as session:
        assert chain.remove_days(session, after_days=90) == 0
        assert chain.verify_chain(session).problems[0].endswith("the day was not sealed. Does beat run?")


#: What an owner could do, and what a verification says of it.
TAMPERED = [
    ("audit_entry", "DELETE FROM audit_entry WHERE actor = 'of 5'", "sealed with 1 entries, and has 0"),
    ("audit_entry", "UPDATE audit_entry SET actor = 'x' WHERE actor = 'of 5'", "an entry was changed"),
    (
        "audit_entry",
        "INSERT INTO audit_entry (at, actor_kind, action, outcome, timeline) "
        "SELECT at, 'service', 'x', 'DONE', 1 FROM audit_entry WHERE actor = 'of 5'",
        "sealed with 1 entries, and has 2",
    ),
    (
        "audit_entry",
        "INSERT INTO audit_entry (at, actor_kind, action, outcome, timeline) "
        "VALUES (now() - interval '20 days', 'service', 'x', 'DONE', 1)",
        "there are entries before the first sealed day",
    ),
    ("audit_day", "DELETE FROM audit_day WHERE day = current_date - 5", "the day is missing"),
    ("audit_day", "DELETE FROM audit_day WHERE day > current_date - 4", "was not sealed"),
    ("audit_day", "DELETE FROM audit_day WHERE day < current_date - 6", "does not follow"),
    ("audit_day", "UPDATE audit_day SET entries = 0 WHERE day = current_date - 5", "does not follow"),
    ("audit_day", "UPDATE audit_day SET removed_at = now()", "it was removed, and has 1 entries"),
]


def test_every_change_is_detected(own: sessionmaker[Session]) -> None:
    _fill(own, 9, 5, 2)
    with own.begin() as session:
        chain.seal_days(session)
        assert chain.verify_chain(session).problems == []
    for table, statement, problem in TAMPERED:
        with own() as session:  # without a commit
            _tamper(session, table, statement)
            assert problem in " ".join(chain.verify_chain(session).problems), statement


def test_a_verification_counts_days_and_entries_and_returns_the_newest_hash(
    own: sessionmaker[Session],
) -> None:
    with own() as session:
        assert chain.verify_chain(session) == chain.Verification(0, 0, 0, None, [], [])
    _fill(own, 4, 2, 2)
    with own.begin() as session:
        sealed = chain.seal_days(session)
        newest = session.scalars(select(AuditDay).order_by(AuditDay.day.desc())).first()
        assert newest is not None
        head = newest.chain_sha256.hex()
        assert chain.verify_chain(session) == chain.Verification(len(sealed), 3, 0, head, [], [])
        assert chain.verify_chain(session, sealed.values()).problems == []
        assert chain.verify_chain(session, chain.read_heads(head.upper())).problems == []


@pytest.mark.parametrize("sealed", [True, False])
def test_a_day_that_is_not_sealed_25_hours_after_its_end_is_a_problem(
    own: sessionmaker[Session], monkeypatch: pytest.MonkeyPatch, *, sealed: bool
) -> None:
    _fill(own, 5)
    with own.begin() as session:
        if sealed:
            day = max(chain.seal_days(session)) + timedelta(days=1)
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
        assert chain.verify_chain(session).problems == []
        now += timedelta(microseconds=1)
        assert chain.verify_chain(session).problems == [f"{day}: the day was not sealed. Does beat run?"]


def test_a_recomputed_chain_is_detected_with_a_known_head(own: sessionmaker[Session], tmp_path: Path) -> None:
    _fill(own, 5, 3)
    kept = tmp_path / "heads"
    with own.begin() as session:
        heads = chain.seal_days(session)
        for day, head in heads.items():
            chain.keep_heads(str(kept), {day: head})
        assert chain.read_heads(str(kept)) == list(heads.values())
        assert chain.verify_chain(session, chain.read_heads(str(kept))).problems == []
    with own.begin() as session:
        _tamper(session, "audit_entry", "DELETE FROM audit_entry WHERE actor = 'of 3'")
        _tamper(session, "audit_day", "DELETE FROM audit_day")
    with own.begin() as session:
        chain.seal_days(session)
        assert chain.verify_chain(session).problems == []
        (problem,) = chain.verify_chain(session, chain.read_heads(str(kept))).problems
        assert problem.startswith("The known head ")
        assert problem.endswith(" is not in the chain.")
        assert session.scalars(select(AuditDay.day)).all()


@pytest.mark.parametrize(("timeline", "is_gap"), [(2, True), (1, False)])
def test_a_chain_that_was_recovered_names_its_gap_and_is_no_problem(
    own: sessionmaker[Session], *, timeline: int, is_gap: bool
) -> None:
    _fill(own, 9, 5)
    with own.begin() as session:
        heads = [*chain.seal_days(session).values()]
    # A backup of seven days ago: neither the entry nor the seals of later days are in it.
    with own.begin() as session:
        _tamper(session, "audit_entry", "DELETE FROM audit_entry WHERE actor = 'of 5'")
        _tamper(session, "audit_day", "DELETE FROM audit_day WHERE day > current_date - 7")
    _fill(own, 1, timeline=timeline)
    with own.begin() as session:
        chain.seal_days(session)
        found = chain.verify_chain(session, heads)
    assert bool(found.problems) is not is_gap
    assert ["timeline 1 to 2" in gap or "The known head" in gap for gap in found.gaps] == [
        True,
        True,
    ] * is_gap


@pytest.mark.parametrize(("after_midnight", "problems"), [("1:00", 0), ("0:59:59.999999", 1)])
def test_a_seal_that_was_due_when_another_server_took_over_may_be_lost(
    own: sessionmaker[Session], after_midnight: str, problems: int
) -> None:
    _fill(own, 9)
    _fill(own, 1, timeline=2)
    took_over = (
        "UPDATE audit_entry SET at = date_trunc('day', now(), 'UTC') - interval '8 days' + interval '?'"
    )
    with own.begin() as session:
        _tamper(session, "audit_entry", f"{took_over} WHERE timeline = 2".replace("?", after_midnight))
        chain.seal_days(session)
        assert len(chain.verify_chain(session, ["00"]).problems) == problems


def test_an_act_and_its_entry_are_committed_together(sessions: sessionmaker[Session]) -> None:
    subject = secrets.token_hex(8)
    with pytest.raises(RuntimeError), sessions.begin() as session:
        record(session, AuditAction.TEAM_CREATED, "operations_team", subject)
        session.flush()
        raise RuntimeError
    assert audited(sessions, subject=subject) == []


def test_pages_of_the_audit_neither_repeat_nor_omit_entries(sessions: sessionmaker[Session]) -> None:
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
            INSERT INTO audit_entry (at, actor_kind, action, subject, outcome, timeline)
            SELECT now(), 'service', 'test.done', number, 'DONE', 1 FROM generate_series(1, 3) AS number
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
