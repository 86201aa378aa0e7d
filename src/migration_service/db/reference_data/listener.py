"""The connection that listens for changes of reference data, and extends the lease. One for each process."""

import logging
import time
from contextlib import closing
from threading import Event, Lock, Thread
from typing import Any, cast
from uuid import uuid4

import psycopg
from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from migration_service.db.reference_data.lease import Lease
from migration_service.metrics.process import REFERENCE_LEASES_LOST

logger = logging.getLogger(__name__)

#: On which the triggers of revision 0017 notify, and the tables that have them.
CHANNEL = "migration_reference"
WATCHED = ("api_key", "import_supplier", "organisation", "token_session")

#: The lease is extended so many times before it would run out.
_ROUND_TRIPS_IN_A_LEASE = 4
#: Seconds for which the lease is extended after rows were last asked for. An idle service sends nothing.
_EXTENDED_FOR = 60.0
#: Seconds until the next try after the connection was lost, and after it turned out not to be suitable.
_RETRY_LOST = 1.0
_RETRY_UNSUITABLE = 30.0

_ROUND_TRIP = """
    SELECT pg_backend_pid() AS pid, pg_postmaster_start_time() AS server,
           (SELECT count(*) FROM pg_trigger WHERE tgname = 'reference_changed' AND tgenabled IN ('O', 'A')
            AND tgrelid IN (SELECT to_regclass(name) FROM unnest(%(tables)s::text[]) AS name)) AS triggers,
           pg_notify(%(channel)s, %(nonce)s)
"""


class UnsuitableError(Exception):
    """The connection cannot prove that nothing has changed. The message says why."""


class ListeningConnection:
    """A connection that listens, and can prove that it does. Not for several threads.

    PostgreSQL delivers notifications in the order in which their transactions were committed. So each round
    trip notifies its own connection: when that arrives, every earlier notification has arrived before.
    """

    def __init__(self, connection: "psycopg.Connection[Any]", lease: Lease) -> None:
        self._connection = connection
        self._lease = lease
        #: What only this connection listens to, so that round trips do not wake other processes.
        self._own = f"{CHANNEL}_{uuid4().hex}"
        self._count = 0

    def begin(self) -> None:
        """Listen, and start the lease anew. Raise UnsuitableError, and psycopg.Error if it cannot be used."""
        self._connection.autocommit = True
        self._connection.execute(f'LISTEN {CHANNEL}; LISTEN "{self._own}"')
        # After LISTEN: what is looked up from here on was looked up while changes are listened to.
        self._lease.begin(self._ask()[1])

    def extend(self) -> None:
        """Extend the lease by a round trip. Raise UnsuitableError, and psycopg.Error if that fails."""
        began_at = self._lease.now()
        nonce, _server = self._ask()
        if (self._own, nonce) not in self.receive(0):
            raise UnsuitableError("a notification to itself did not come back on this connection")
        self._lease.extend(began_at)

    def receive(self, seconds: float) -> list[tuple[str, str]]:
        """Wait at most `seconds` for notifications, and drop what is kept if one tells of a change."""
        found = []
        for it in self._connection.notifies(timeout=seconds, stop_after=1 if seconds else None):
            found.append((it.channel, it.payload))
            if it.channel == CHANNEL:
                self._lease.drop()
        return found

    def _ask(self) -> tuple[str, Any]:
        self._count += 1
        nonce = str(self._count)
        values = {"channel": self._own, "nonce": nonce, "tables": list(WATCHED)}
        row = self._connection.execute(_ROUND_TRIP, values).fetchone()
        pid, server, triggers = row[:3] if row else (None, None, None)
        # A pooler answers cancel requests itself, so it gives each client a key with another process id.
        if pid != self._connection.info.backend_pid:
            raise UnsuitableError("a pooler is in between, which may lose notifications")
        if triggers != len(WATCHED):
            raise UnsuitableError("the tables do not notify: apply the newest revision")
        return nonce, server


class ChangeListener:
    """The thread that keeps a ListeningConnection open and extends the lease.

    Whatever goes wrong, the lease runs out by itself, and rows are looked up each time.
    """

    def __init__(self, engine: Engine, lease: Lease) -> None:
        self._engine = engine
        self._lease = lease
        self._lock = Lock()
        self._thread: Thread | None = None
        self._closing = Event()
        #: What the log said last about why there is no lease.
        self._reason = ""

    def start(self) -> None:
        """Start the thread, unless it runs. The first request does so, in the process that serves it."""
        if self._thread is None:
            with self._lock:
                if self._thread is None:
                    self._thread = Thread(target=self._run, name="change-listener", daemon=True)
                    self._thread.start()

    def close(self) -> None:
        """End the thread and its connection."""
        self._closing.set()
        if self._thread:
            self._thread.join()
        self._engine.dispose()

    def _run(self) -> None:
        while not self._closing.is_set():
            retry = _RETRY_LOST
            try:
                self._listen()
            except UnsuitableError as error:
                retry = _RETRY_UNSUITABLE
                self._note_loss(str(error))
            except (psycopg.Error, SQLAlchemyError) as error:
                self._note_loss(f"the listening connection failed ({type(error).__name__})")
            if self._lease.lose() and not self._closing.is_set():
                REFERENCE_LEASES_LOST.inc()
            self._closing.wait(retry)

    def _listen(self) -> None:
        pause = self._lease.seconds / _ROUND_TRIPS_IN_A_LEASE
        with closing(self._engine.raw_connection()) as pooled:
            connection = cast("psycopg.Connection[Any]", pooled.driver_connection)
            pooled.detach()  # it listens, so it is closed at the end, and not given back to the pool
            listening = ListeningConnection(connection, self._lease)
            listening.begin()
            while not self._closing.is_set():
                if self._lease.now() - self._lease.asked_at < _EXTENDED_FOR:
                    listening.extend()
                    self._note_lease()
                until = time.monotonic() + pause
                while (left := until - time.monotonic()) > 0 and not self._closing.is_set():
                    listening.receive(left)

    def _note_lease(self) -> None:
        if self._reason:
            logger.info("API keys, sessions and import suppliers are kept in memory again.")
            self._reason = ""

    def _note_loss(self, reason: str) -> None:
        if reason != self._reason:
            self._reason = reason
            logger.warning(
                "API keys, sessions and import suppliers are looked up in each request, because %s.", reason
            )
