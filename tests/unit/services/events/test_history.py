"""Cursors after the database was restored: nothing is left out, and who has read what was lost is told so."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import delete
from sqlalchemy.engine import make_url
from sqlalchemy.orm import Session, sessionmaker

from migration_service.db.base import new_id
from migration_service.db.engine import make_engine, make_sessionmaker
from migration_service.errors import EventCursorAheadError, EventCursorExpiredError, EventCursorInvalidError
from migration_service.models import Event
from migration_service.schemas.events import EventType
from migration_service.services.events.consumers import open_feed
from migration_service.services.events.history import (
    START,
    Cursor,
    cursor_writer,
    follow_history,
    note_progress,
    parse_cursor,
    tell_rewound,
)
from migration_service.services.events.reading import Position, read_events
from migration_service.services.events.recording import record
from migration_service_local.servers.postgres import DATABASE
from migration_service_local.servers.process import stop_children
from support.servers import EmbeddedServers, wait_until

OWNER, OTHER = 1, 2
_OWNERS = "INSERT INTO organisation (id, name) VALUES (2, 'Other'), (1, 'Owner') ON CONFLICT DO NOTHING"


class Feed:
    """The feed of one organisation, in a database that is restored."""

    def __init__(self, servers: EmbeddedServers, sessions: sessionmaker[Session]) -> None:
        self.servers = servers
        self.sessions = sessions

    def tell(self, *numbers: int) -> None:
        """Record an event with each number, in a transaction with one of another organisation."""
        for number in numbers:
            data = {"prefix": "ami_0", "expires_at": "2026-03-01T10:15:00Z", "days": number}
            with self.sessions.begin() as session:
                for owner in (OWNER, OTHER):
                    record(session, EventType.API_KEY_EXPIRES, data, organisation_id=owner)

    def read(self, cursor: str | None = None, consumer: str | None = None) -> list[int | str]:
        """Return the numbers of the events after a cursor, and the types of others."""
        return [number for number, _ in self._read(cursor, consumer)]

    def cursor_at(self, number: int) -> str:
        """Return the cursor of the event with this number."""
        return next(cursor for found, cursor in self._read() if found == number)

    def lose(self, cursor: str) -> str:
        """Read on from a cursor that is ahead. Return the one from which to read again."""
        with self.sessions() as session, pytest.raises(EventCursorAheadError) as raised:
            open_feed(session, OWNER, cursor, None)
        for _ in range(2):
            with self.sessions.begin() as session:
                tell_rewound(session, OWNER, raised.value.cursor)
        return raised.value.cursor

    def parse(self, cursor: str) -> Cursor:
        """Return the parts of a cursor."""
        with self.sessions.begin() as session:
            return parse_cursor(follow_history(session), OWNER, cursor)

    def note_progress(self) -> None:
        """Do what the periodic task does."""
        with self.sessions.begin() as session:
            note_progress(session)

    def _read(self, cursor: str | None = None, consumer: str | None = None) -> list[tuple[int | str, str]]:
        with self.sessions.begin() as session:
            history, position = open_feed(session, OWNER, cursor, consumer)
            events = read_events(session, OWNER, position, limit=1_000).events
        return [
            (
                int(event.body.partition('"days": ')[2].partition(",")[0].partition("}")[0])
                if event.type == EventType.API_KEY_EXPIRES
                else event.type,
                cursor_writer(history, OWNER)(event.position),
            )
            for event in events
        ]


@contextmanager
def feed_on(servers: EmbeddedServers) -> Iterator[Feed]:
    engine = make_engine(servers.database_url, pool_size=2, max_overflow=0, application_name="tests")
    feed = Feed(servers, make_sessionmaker(engine))
    with servers.postgres.connect_as_superuser(DATABASE) as connection:
        connection.execute(_OWNERS)
    yield feed
    engine.dispose()


@pytest.fixture
def servers(prepared_servers: Path) -> Iterator[EmbeddedServers]:
    with EmbeddedServers.copy_of(prepared_servers) as servers:
        yield servers


@pytest.fixture
def feed(servers: EmbeddedServers) -> Iterator[Feed]:
    with feed_on(servers) as feed:
        yield feed


def run(servers: EmbeddedServers, program: str, *arguments: str) -> None:
    """Run a program of PostgreSQL as the account of the server."""
    binary = Path(servers.postgres.program().arguments[0]).with_name(program)
    done = servers.home.account.run([str(binary), *arguments], environment={"LC_ALL": "C"})
    assert done.returncode == 0, done.stderr


def url_of(servers: EmbeddedServers, database: str = DATABASE) -> str:
    """Return the address of a database as the superuser."""
    secret = servers.home.secret("postgres_password")
    url = make_url(servers.database_url).set(username="postgres", password=secret, database=database)
    return url.render_as_string(hide_password=False)


def back_up(servers: EmbeddedServers) -> Path:
    """Make a base backup of the running server, with the WAL that it needs."""
    folder = servers.postgres.data.with_name("base")
    run(servers, "pg_basebackup", "-d", url_of(servers, "postgres"), "-D", str(folder), "-c", "fast")
    return folder


def restore(servers: EmbeddedServers, folder: Path, *, as_recovery: bool = True) -> None:
    """Replace the data of the server, and start it: on another timeline if `as_recovery`."""
    data = servers.postgres.data
    shutil.rmtree(data, ignore_errors=True)
    folder.rename(data)
    if as_recovery:
        with (data / "postgresql.auto.conf").open("a") as configuration:
            configuration.write("restore_command = 'false'\n")
        (data / "recovery.signal").touch()
        servers.home.account.own(data / "recovery.signal", 0o600)
    servers.start("postgres")
    with servers.connect_as_superuser() as connection:
        wait_until(
            lambda: connection.execute("SELECT pg_is_in_recovery()").fetchone() == (False,), "it takes over"
        )


def test_after_a_restore_whoever_has_read_more_is_told_from_where_to_read_again(feed: Feed) -> None:
    feed.tell(1)
    feed.note_progress()
    feed.tell(2)
    base = back_up(feed.servers)
    kept = feed.cursor_at(2)
    feed.tell(3, 4)
    lost = feed.cursor_at(4)
    feed.servers.kill("postgres")
    restore(feed.servers, base)
    feed.sessions.kw["bind"].dispose()
    feed.tell(*range(50, 60))
    assert feed.parse(feed.cursor_at(59)).position > feed.parse(lost).position, "the numbers are used again"
    assert feed.read(kept) == [*range(50, 60)]
    again = feed.lose(lost)
    # What was read for certain is what the earlier history had reached when that was last noted.
    assert feed.read(again) == [2, *range(50, 60), "feed.rewound"]
    assert feed.read(kept) == [*range(50, 60), "feed.rewound"]


def test_a_planned_switch_over_changes_nothing_for_readers(feed: Feed) -> None:
    feed.tell(1, 2)
    first, last = feed.cursor_at(1), feed.cursor_at(2)
    feed.note_progress()
    stop_children([feed.servers.children.pop("postgres")])
    copy = feed.servers.postgres.data.with_name("copy")
    feed.servers.postgres.data.rename(copy)
    restore(feed.servers, copy)
    feed.sessions.kw["bind"].dispose()
    feed.tell(3)
    assert feed.read(last) == [3]
    assert feed.parse(feed.cursor_at(3)).history.timeline == feed.parse(last).history.timeline + 1
    feed.note_progress()
    assert feed.read() == [1, 2, 3]
    # What retention has removed since was not lost, and nobody has to read again.
    with feed.sessions.begin() as session:
        session.execute(delete(Event).where(Event.data["days"].astext == "1"))
    with pytest.raises(EventCursorExpiredError):
        feed.read(first)


def test_a_snapshot_of_the_disk_goes_back_on_the_same_timeline(feed: Feed) -> None:
    feed.tell(1)
    feed.note_progress()
    base = back_up(feed.servers)
    feed.tell(2)
    lost = feed.cursor_at(2)
    feed.servers.kill("postgres")
    restore(feed.servers, base, as_recovery=False)
    feed.sessions.kw["bind"].dispose()
    feed.tell(3)
    # Nobody knows where it went back to.
    assert feed.lose(lost) == START
    assert feed.read(START) == [1, 3, "feed.rewound"]


def test_a_dump_is_restored_where_transactions_have_lower_numbers(feed: Feed, tmp_path: Path) -> None:
    with feed.sessions.begin() as session:
        follow_history(session)
    with psycopg.connect(feed.servers.database_url, autocommit=True) as connection:
        connection.execute(
            "DO 'BEGIN FOR _ IN 1..5000 LOOP PERFORM pg_current_xact_id(); COMMIT; END LOOP; END'"
        )
    feed.tell(1, 2, 3)
    known, read = feed.cursor_at(2), feed.cursor_at(3)
    assert feed.read(known, "billing") == [3]
    file = feed.servers.folder / "home" / "postgres" / "dump"
    run(feed.servers, "pg_dump", "-Fc", "-d", url_of(feed.servers), "-f", str(file))
    feed.tell(4)
    lost = feed.cursor_at(4)
    with EmbeddedServers() as others:
        run(feed.servers, "pg_restore", "--exit-on-error", "-d", url_of(others), str(file))
        with feed_on(others) as restored:
            restored.tell(5)  # nobody has noticed yet
            assert restored.read() == [1, 2, 3, 5]
            assert restored.read(known) == [3, 5, "feed.rewound"]
            assert restored.read(consumer="billing") == [3, 5, "feed.rewound"]
            assert restored.read(read) == [5, "feed.rewound"]
            again = restored.lose(lost)
            assert (again, restored.read(again)) == (restored.cursor_at(3), [5, "feed.rewound"])
            restored.tell(6)
            restored.note_progress()
            assert restored.read(restored.cursor_at(5)) == ["feed.rewound", 6]


def test_a_cursor_is_read_back_as_it_was_written(sessions: sessionmaker[Session]) -> None:
    with sessions.begin() as session:
        history = follow_history(session)
    for position in (Position(-3, 2**40, new_id()), Position(0, 1, new_id())):
        text_ = cursor_writer(history, OWNER)(position)
        assert parse_cursor(history, OWNER, text_) == Cursor(history, position)


@pytest.mark.parametrize(
    "mistake",
    [
        *(
            str.upper,
            lambda it: it[1:],
            lambda it: it + "0",
            lambda _: "",
            lambda _: "1",
            lambda it: it[:-17],
        ),
        lambda it: it[:-1] + ("0" if it[-1] != "0" else "1"),
        lambda it: it[:-20] + ("0" if it[-20] != "0" else "1") + it[-19:],
        lambda it: it.replace("-0-", "-1-", 1),
    ],
)
def test_other_texts_are_no_cursor(sessions: sessionmaker[Session], mistake: Callable[[str], str]) -> None:
    with sessions.begin() as session:
        history = follow_history(session)
    cursor = cursor_writer(history, OWNER)(Position(0, 2**40, new_id()))
    for owner, sent in ((OWNER, mistake(cursor)), (OWNER + 1, cursor)):
        with pytest.raises(EventCursorInvalidError):
            parse_cursor(history, owner, sent)
