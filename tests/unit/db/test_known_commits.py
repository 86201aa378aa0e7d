"""A COMMIT whose answer is lost: whether it took effect is known all the same."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
from sqlalchemy import make_url, text
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session, sessionmaker

from migration_service.config import Settings
from migration_service.db import known_commits
from migration_service.db.engine import make_engine, make_sessionmaker
from migration_service.db.known_commits import MARK, KnownCommit, count_effects
from migration_service.db.sql import begin
from migration_service.errors import ServiceUnavailableError
from support.proxy import CuttingProxy
from support.servers import wait_until

WRITE = "INSERT INTO organisation (name) VALUES ('{name}') RETURNING id"


@pytest.fixture
def proxy(migrated: Settings) -> Iterator[CuttingProxy]:
    url = make_url(migrated.database_url)
    with CuttingProxy(str(url.host), int(url.port or 0)) as proxy:
        yield proxy


@pytest.fixture
def own_sessions(migrated: Settings, proxy: CuttingProxy) -> Iterator[sessionmaker[Session]]:
    url = make_url(migrated.database_url).set(port=proxy.port).render_as_string(hide_password=False)
    engine = make_engine(url, pool_size=2, max_overflow=0, application_name="cut", kind=KnownCommit)
    yield make_sessionmaker(engine)
    engine.dispose()


def rows(sessions: sessionmaker[Session], name: str = "written") -> int:
    with sessions() as session:
        counted = text("SELECT count(*) FROM organisation WHERE name = :name")
        return session.scalar(counted, {"name": name}) or 0


def marks(sessions: sessionmaker[Session]) -> int:
    with sessions() as session:
        counted = "SELECT count(*) FROM idempotency_key WHERE endpoint = :mark"
        return session.scalar(text(counted), {"mark": MARK}) or 0


def write(sessions: sessionmaker[Session], *, directly: bool, name: str = "written") -> None:
    statement = WRITE.format(name=name)
    if directly:
        with begin(sessions) as transaction:
            transaction.execute(statement, {})
    else:
        with sessions.begin() as session:
            session.execute(text(statement))


@pytest.mark.parametrize("directly", [False, True])
def test_a_commit_whose_answer_is_lost_has_taken_effect_and_one_that_never_arrives_can_be_repeated(
    proxy: CuttingProxy, own_sessions: sessionmaker[Session], directly: bool
) -> None:
    before = count_effects()
    proxy.cut_at(b"COMMIT", forwards=True)
    write(own_sessions, directly=directly)
    assert (rows(own_sessions), marks(own_sessions), count_effects()) == (1, 1, before + 1)
    proxy.cut_at(b"COMMIT", forwards=False)
    with pytest.raises(OperationalError):
        write(own_sessions, directly=directly, name="repeated")
    assert rows(own_sessions, "repeated") == 0
    write(own_sessions, directly=directly, name="repeated")
    assert rows(own_sessions, "repeated") == 1


@pytest.fixture
def slow_commits(migrated: Settings) -> Iterator[psycopg.Connection]:
    """A connection. While it holds the advisory lock 31, commits of organisations wait for it."""
    with psycopg.connect(migrated.owner_database_url, autocommit=True) as owner:
        owner.execute(
            "CREATE FUNCTION wait_for_test() RETURNS trigger LANGUAGE plpgsql SET lock_timeout = 0 AS "
            "$$ BEGIN PERFORM pg_advisory_xact_lock(31); RETURN NULL; END $$; "
            "CREATE CONSTRAINT TRIGGER wait_for_test AFTER INSERT ON organisation "
            "DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION wait_for_test()"
        )
        yield owner
        owner.execute("DROP FUNCTION wait_for_test() CASCADE")


def test_the_question_waits_for_a_commit_that_is_still_being_carried_out(
    proxy: CuttingProxy,
    own_sessions: sessionmaker[Session],
    sessions: sessionmaker[Session],
    slow_commits: psycopg.Connection,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def both_wait() -> bool:
        """Whether the commit waits for the test, and the question for the commit. Others may wait, too."""
        with sessions() as session:
            waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted AND locktype <> 'relation'"
            return bool(session.scalar(text(waiting)) >= 2)

    monkeypatch.setattr(known_commits, "HOLD_SECONDS", 30.0)
    slow_commits.execute("SELECT pg_advisory_lock(31)")
    proxy.cut_at(b"COMMIT", forwards=True, waits=False)
    with ThreadPoolExecutor() as pool:
        writing = pool.submit(write, own_sessions, directly=False)
        wait_until(both_wait, "the question waits")
        slow_commits.execute("SELECT pg_advisory_unlock(31)")
        writing.result(30)
    assert rows(own_sessions) == 1


def test_a_transaction_that_only_reads_leaves_no_mark_and_is_no_effect(
    own_sessions: sessionmaker[Session],
) -> None:
    before = count_effects()
    with own_sessions.begin() as session:
        session.execute(text("SELECT 1"))
    with own_sessions.begin() as session:
        session.execute(text("SET TRANSACTION READ ONLY"))
        session.execute(text("SELECT count(*) FROM organisation"))
    assert (marks(own_sessions), count_effects()) == (0, before)


def test_without_a_server_to_ask_it_is_said_that_nobody_knows(
    proxy: CuttingProxy, own_sessions: sessionmaker[Session], monkeypatch: pytest.MonkeyPatch
) -> None:
    def nobody() -> psycopg.Connection:
        raise psycopg.OperationalError("nobody listens")

    monkeypatch.setattr(known_commits, "HOLD_SECONDS", 0.2)
    proxy.cut_at(b"COMMIT", forwards=True)
    unknown = pytest.raises(ServiceUnavailableError, match="stored completely or not at all")
    with unknown, own_sessions.begin() as session:
        session.execute(text(WRITE.format(name="written")))
        connection = session.connection().connection.driver_connection
        assert isinstance(connection, KnownCommit)
        connection.reconnect = nobody
    wait_until(lambda: rows(own_sessions) == 1, "it took effect")
