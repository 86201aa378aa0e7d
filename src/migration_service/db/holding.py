"""Waiting for the next primary server of PostgreSQL, and repeating what is not finished (decision 8).

Work that has not been acknowledged is held for HOLD_SECONDS. One thread of a process asks for a server that
can be written to, and the others wait for it. If the database has been away for longer, nothing is held any
more, so that the threads of a web process stay free.
"""

import threading
import time
from collections.abc import Callable
from typing import TypeVar
from weakref import WeakKeyDictionary

from sqlalchemy import Engine, event, text
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from sqlalchemy.orm import Session, sessionmaker

from migration_service.db import known_commits
from migration_service.db.engine import ONLY_READS, is_primary_gone

T = TypeVar("T")


class _Outage:
    """What the threads of a process know of a database that is away."""

    def __init__(self, engine: Engine) -> None:
        #: Held while a thread asks for a server.
        self.asking = threading.Lock()
        #: When the first error was met, or None if a connection was opened since.
        self.began: float | None = None
        self.answered_at = 0.0

        @event.listens_for(engine, "connect")
        def end(_connection: object, _record: object) -> None:
            self.began = None


_outages: "WeakKeyDictionary[Engine, _Outage]" = WeakKeyDictionary()
_making = threading.Lock()


def _outage_of(engine: Engine) -> _Outage:
    with _making:
        if engine not in _outages:
            _outages[engine] = _Outage(engine)
        return _outages[engine]


def is_lost(sessions: sessionmaker[Session], error: BaseException) -> bool:
    """Return whether an error says that the primary server has gone, so that waiting helps."""
    if isinstance(error, PoolTimeoutError):  # all connections wait for a server that does not answer
        return _outage_of(sessions.kw["bind"]).began is not None
    return isinstance(error, DBAPIError) and is_primary_gone(error.orig)


def wait_until_writable(sessions: sessionmaker[Session], until: float) -> bool:
    """Wait for a server that can be written to. Return False if none answers until then (`time.monotonic`).

    Return False immediately if the database has been away for HOLD_SECONDS.
    """
    engine = sessions.kw["bind"]
    outage, failed_at = _outage_of(engine), time.monotonic()
    began = outage.began = outage.began or failed_at
    if failed_at - began > known_commits.HOLD_SECONDS:
        return False
    while (left := until - time.monotonic()) > 0:
        if not outage.asking.acquire(timeout=left):
            break
        try:
            if outage.answered_at > failed_at or can_be_written_to(engine):
                outage.answered_at = time.monotonic()
                return True
        finally:
            outage.asking.release()
        time.sleep(known_commits.PAUSE)
    return False


def can_be_written_to(engine: Engine) -> bool:
    """Return whether the server can be written to. If not, the next connection may lead to another one."""
    try:
        with engine.connect() as connection:
            if not connection.scalar(text(ONLY_READS)):
                return True
            connection.invalidate()
    except SQLAlchemyError:
        pass
    return False


def repeat(sessions: sessionmaker[Session], step: Callable[[], T]) -> T:
    """Return the result of `step`, which is called again on the next primary server if the last one is lost.

    A step is a transaction, or several of which each may be repeated. Raise the error of the last call if no
    server answers within HOLD_SECONDS.
    """
    until = time.monotonic() + known_commits.HOLD_SECONDS
    while True:
        try:
            return step()
        except SQLAlchemyError as error:
            if not is_lost(sessions, error) or not wait_until_writable(sessions, until):
                raise
