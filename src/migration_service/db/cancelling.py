"""Cancelling what a thread does in the database, once nobody waits for it any more."""

import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, wait
from contextvars import ContextVar, copy_context
from typing import Any, Generic, TypeVar
from weakref import WeakSet

import psycopg
from psycopg.pq import TransactionStatus
from sqlalchemy import Engine, event, text
from sqlalchemy.orm import Session

from migration_service.db.known_commits import KnownCommit, add_effects, count_effects

logger = logging.getLogger(__name__)

Result = TypeVar("Result")

#: Seconds between two attempts to cancel: a thread may go on with another statement.
_AGAIN = 0.5
#: The key in a connection's `info` with the thread that uses it.
_THREAD = "thread"

#: False in a request, unless its thread is one of `Work`. The time-out of the engine, which is short in web
#: processes, ends its statements then.
is_followed: ContextVar[bool] = ContextVar("is_followed", default=True)


def allow_minutes(session: Session, longest: str = "10min") -> None:
    """Let the following statements of a transaction take up to `longest`, if they can be cancelled."""
    if is_followed.get():
        session.execute(text(f"SET LOCAL statement_timeout = '{longest}'"))


class Connections:
    """Which thread uses which connection of an engine."""

    def __init__(self, engine: Engine) -> None:
        # Held while a statement is cancelled, so that no other thread gets its connection meanwhile.
        self._cancelling = threading.Lock()
        # Weak, because a connection that was lost is not given back.
        self._used: dict[int, WeakSet[psycopg.Connection[Any]]] = {}

        @event.listens_for(engine, "checkout")
        def take(connection: "psycopg.Connection[Any]", record: Any, _proxy: Any) -> None:
            record.info[_THREAD] = threading.get_ident()
            self._used.setdefault(threading.get_ident(), WeakSet()).add(connection)

        @event.listens_for(engine, "checkin")
        def give_back(connection: "psycopg.Connection[Any] | None", record: Any) -> None:
            thread = record.info.pop(_THREAD, 0)
            used = self._used.get(thread)
            if used is not None:
                with self._cancelling:
                    if connection is not None:
                        used.discard(connection)
                    if not used:
                        self._used.pop(thread, None)

    def cancel(self, thread: int) -> None:
        """Cancel the statements that a thread waits for, but for a COMMIT.

        That may wait for a standby only, and would then be done without it.
        """
        with self._cancelling:
            for connection in [*self._used.get(thread, ())]:
                is_committing = isinstance(connection, KnownCommit) and connection.is_committing
                if connection.pgconn.transaction_status == TransactionStatus.ACTIVE and not is_committing:
                    connection.cancel_safe(timeout=1)


def run_apart(job: Callable[[], Result]) -> "Future[Result]":
    """Start `job` in a daemon thread. Return the future of its result."""
    future: Future[Result] = Future()

    def run() -> None:
        try:
            future.set_result(job())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return future


class Work(Generic[Result]):
    """A function that runs in a thread of its own, with the context of the one that starts it."""

    def __init__(self, connections: Connections, function: Callable[[], Result]) -> None:
        self._connections = connections
        self._thread = 0
        #: The seconds of processor time that it took.
        self.seconds = 0.0
        #: The number of its transactions that have written something.
        self._effects = 0
        context = copy_context()
        context.run(is_followed.set, True)

        def run() -> Result:
            self._thread = threading.get_ident()
            try:
                return context.run(function)
            finally:
                self.seconds, self._effects = time.thread_time(), count_effects()

        self._result = run_apart(run)

    def wait(self, seconds: float) -> bool:
        """Return whether it ends within this time."""
        return bool(wait([self._result], seconds).done)

    def result(self) -> Result:
        """Return what it returned, or raise what it raised. It must have ended.

        Its effects are then those of the calling thread.
        """
        add_effects(self._effects)
        self._effects = 0
        return self._result.result()

    def abandon(self) -> None:
        """Cancel its statements until it has ended."""
        while not self._result.done():
            try:
                self._connections.cancel(self._thread)
            except psycopg.Error as error:
                logger.warning("An abandoned statement could not be cancelled: %s", type(error).__name__)
            self.wait(_AGAIN)
