"""Waiting for the next primary server of PostgreSQL, and repeating what is not finished (decision 8).

Work that has not been acknowledged is held for HOLD_SECONDS. One thread of a process asks for a server that
can be written to, and the others wait for it. If the database has been away for longer, few threads wait, so
that those of a web process stay free.
"""

import math
import threading
import time
import weakref
from collections.abc import Callable
from functools import partial
from typing import TypeVar
from weakref import WeakKeyDictionary

from sqlalchemy import Engine, text
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from sqlalchemy.orm import Session, sessionmaker

from migration_service.db import known_commits
from migration_service.db.engine import ONLY_READS, is_primary_gone

T = TypeVar("T")

#: The most threads of a process that wait for a server that has been away for longer than HOLD_SECONDS. A web
#: process has 320, of which 250 may wait for their accounts.
HELD_IN_LONG_OUTAGES = 40


class Outage:
    """What the threads of a process know of a server that is away, and their wait for it."""

    def __init__(self, answers: Callable[[], bool]) -> None:
        #: Asks whether there is a server again.
        self._answers = answers
        #: Held while a thread asks.
        self._asking = threading.Lock()
        self._places = threading.Semaphore(HELD_IN_LONG_OUTAGES)
        #: When the first error of the last outage was met, and when a thread was answered.
        self._began, self._answered_at = -math.inf, 0.0

    def is_on(self) -> bool:
        """Return whether nothing has been answered since the last error."""
        return self._began > self._answered_at

    def wait(self, until: float) -> bool:
        """Wait for a server. Return False if none answers until then (`time.monotonic`).

        Return False immediately if there has been none for HOLD_SECONDS and enough threads wait.
        """
        failed_at = time.monotonic()
        if not self.is_on():
            self._began = failed_at
        has_place = self._places.acquire(blocking=False)
        try:
            is_long = failed_at - self._began > known_commits.HOLD_SECONDS
            return (has_place or not is_long) and self._ask(failed_at, until)
        finally:
            if has_place:
                self._places.release()

    def _ask(self, failed_at: float, until: float) -> bool:
        while (left := until - time.monotonic()) > 0:
            if not self._asking.acquire(timeout=left):
                break
            try:
                if self._answered_at > failed_at or self._answers():
                    self._answered_at = time.monotonic()
                    return True
            finally:
                self._asking.release()
            time.sleep(known_commits.PAUSE)
        return False


_outages: "WeakKeyDictionary[Engine, Outage]" = WeakKeyDictionary()
_making = threading.Lock()


def outage_of(sessions: sessionmaker[Session]) -> Outage:
    """Return what is known of the database of these sessions."""
    engine: Engine = sessions.kw["bind"]
    with _making:
        if engine not in _outages:
            # It must not keep the engine.
            _outages[engine] = Outage(partial(can_be_written_to, weakref.proxy(engine)))
        return _outages[engine]


def is_lost(sessions: sessionmaker[Session], error: BaseException) -> bool:
    """Return whether an error says that the primary server has gone, so that waiting helps."""
    if isinstance(error, PoolTimeoutError):  # all connections wait for a server that does not answer
        return outage_of(sessions).is_on()
    return isinstance(error, DBAPIError) and is_primary_gone(error.orig)


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
    server answers within HOLD_SECONDS. Whoever holds more than this step does not wait once more then.
    """
    until = time.monotonic() + known_commits.HOLD_SECONDS
    while True:
        try:
            return step()
        except SQLAlchemyError as error:
            if not is_lost(sessions, error):
                raise
            if not outage_of(sessions).wait(until):
                vars(error)[_WAS_HELD] = True
                raise


def was_held(error: BaseException) -> bool:
    """Return whether `repeat` has waited in vain before it raised this error."""
    return _WAS_HELD in vars(error)


_WAS_HELD = "was_held"
