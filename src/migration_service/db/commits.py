"""Checking that the database answers and commits, with time limits.

A primary without its synchronous standby answers every query, but keeps each commit waiting for ever. No
time-out of the server ends that wait, so another connection watches and cancels it.
"""

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, wait
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from sqlalchemy import Connection, Engine, text
from sqlalchemy.exc import SQLAlchemyError

from migration_service.db.cancelling import run_apart

#: Seconds after which a commit counts as waiting.
COMMIT_SECONDS = 3.0
#: Seconds between two checks of a web process.
_INTERVAL = 5.0
#: The wait for a synchronous standby, in pg_stat_activity.
_SYNC_REP = "SyncRep"
#: Writes only to the WAL. It needs no privilege on any table, and leaves no row.
_WRITE = text(
    "SELECT pg_backend_pid() FROM pg_logical_emit_message(true, 'migration_service', 'does it commit?')"
)
#: By then a pooler may have given the connection to another client, whose statement must not be cancelled.
_FIND_AND_CANCEL = text(
    "SELECT wait_event, current_setting('synchronous_standby_names'), pg_cancel_backend(pid) "
    "FROM pg_stat_activity WHERE pid = :pid AND state = 'active' AND query = 'COMMIT'"
)


@dataclass(frozen=True, slots=True)
class CommitWait:
    """A commit that was not completed in time. `wait_event` is empty if PostgreSQL gave no reason."""

    wait_event: str = ""
    synchronous_standby_names: str = ""

    @property
    def for_standby(self) -> bool:
        """Whether it is waiting for a synchronous standby."""
        return self.wait_event == _SYNC_REP


def find_commit_wait(engine: Engine) -> CommitWait | None:
    """Commit a transaction. Return its wait after COMMIT_SECONDS, or None if it was committed.

    A waiting commit is cancelled. This uses up to two connections of `engine`. Raise SQLAlchemyError if the
    database cannot be used at all.
    """
    connection = engine.connect()
    try:
        process = connection.scalar(_WRITE)
    except BaseException:
        connection.close()
        raise
    committed = run_apart(partial(_commit, connection))
    with suppress(TimeoutError):
        committed.result(COMMIT_SECONDS)
        return None
    found = CommitWait()
    with suppress(TimeoutError, SQLAlchemyError):
        found = run_apart(partial(_look, engine, process)).result(COMMIT_SECONDS)
    wait([committed], 1.0)
    return found


def _commit(connection: Connection) -> None:
    try:
        connection.commit()
    finally:
        connection.close()


def _look(engine: Engine, process: int | None) -> CommitWait:
    with engine.connect() as connection:
        row = connection.execute(_FIND_AND_CANCEL, {"pid": process}).one_or_none()
    return CommitWait(row[0] or "", row[1]) if row else CommitWait()


class CommitWatch:
    """The checks of the database by a web process, which never wait longer than their time limits.

    The check for waiting commits runs in the background while it is being used.
    """

    def __init__(self, make_engine: Callable[[], Engine]) -> None:
        self._make_engine = make_engine
        self._lock = threading.Lock()
        self._trying = False
        self._tried_at = -_INTERVAL
        self._waits = False
        #: The last answers, by whether the question was asked on a connection of its own.
        self._answers: dict[bool, Future[str]] = {}

    def ask(self, question: Callable[[Engine], str], engine: Engine, seconds: float) -> str:
        """Return the answer to `question` about `engine`. Raise TimeoutError if it does not come in time.

        A server that is frozen does not answer, and no time-out of its own ends that. While a question waits
        for it, the next ones are asked on a connection of their own, which leads to the server that is the
        primary by then. At most one thread waits for each of these two.
        """
        with self._lock:
            waits = self._is_waiting(is_own=False)
            if not waits:
                self._answers[False] = run_apart(partial(question, engine))
            elif not self._is_waiting(is_own=True):
                self._answers[True] = run_apart(partial(self._ask_apart, question))
            answer = self._answers[waits]
        return answer.result(seconds)

    def _is_waiting(self, *, is_own: bool) -> bool:
        return is_own in self._answers and not self._answers[is_own].done()

    def _ask_apart(self, question: Callable[[Engine], str]) -> str:
        engine = self._make_engine()
        try:
            return question(engine)
        finally:
            engine.dispose()

    def commits_wait(self) -> bool:
        """Return the result of the last check immediately. Start another one if that is some seconds old."""
        with self._lock:
            due = not self._trying and time.monotonic() - self._tried_at >= _INTERVAL
            self._trying = self._trying or due
        if due:
            run_apart(self._try)
        return self._waits

    def _try(self) -> None:
        engine = self._make_engine()
        try:
            self._waits = find_commit_wait(engine) is not None
        except SQLAlchemyError:
            # The database cannot be used at all. Its users will find out.
            self._waits = False
        finally:
            engine.dispose()
            self._tried_at = time.monotonic()
            self._trying = False
