"""Rows that rarely change, kept in memory for a second from the start of their look-up (decision 10)."""

import time
from collections.abc import Callable, Collection, Hashable, Mapping
from typing import Any

from sqlalchemy.orm import Session, sessionmaker

from migration_service.db.sql import SqlConnection, autocommit
from migration_service.metrics.process import REFERENCE_READS

#: Seconds for which a web process keeps a row, and so until a change is known everywhere.
KEPT_SECONDS = 1.0
#: The largest number of kept results. If there are more, all are discarded and looked up again.
MOST_KEPT = 10_000
#: The clocks of two machines do not run at exactly the same speed.
_DRIFT = 1.05

_FROM_MEMORY = REFERENCE_READS.labels("memory")
_FROM_DATABASE = REFERENCE_READS.labels("database")

# It never goes back, and on Linux it includes the time for which the machine was suspended.
_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def read_clock() -> float:
    """Return the seconds of a monotonic clock."""
    return time.clock_gettime(_CLOCK)


def wait_until_known() -> None:
    """Wait until no web process uses a row that it read before a change, which has been committed.

    Call this after the commit, before confirming that something was revoked or ended.
    """
    time.sleep(KEPT_SECONDS * _DRIFT)


class ReferenceReader(SqlConnection):
    """Single statements. The rows of those in `kept` are reused for `seconds` after their look-up started.

    So a change is known everywhere `seconds` after its COMMIT, however long a look-up takes or a process is
    frozen. Empty results are not kept. Rows that expire earlier have a column `seconds_left`. The reader
    holds no connection, but takes one from the pool for each statement that it has to send.
    """

    def __init__(
        self,
        sessions: sessionmaker[Session],
        kept: Collection[str],
        seconds: float,
        now: Callable[[], float] = read_clock,
    ) -> None:
        self._sessions = sessions
        self._statements = frozenset(kept) if seconds else frozenset()
        self._seconds = seconds
        self._now = now
        #: The rows of a statement with its values, and the time until which they may be used.
        self._kept: dict[Hashable, tuple[float, list[Any]]] = {}

    def execute(self, statement: str, values: Mapping[str, Any]) -> list[Any]:
        """Return the rows of a statement as named tuples. Raise SQLAlchemy's DBAPIError if it fails."""
        if statement not in self._statements:
            return self._send(statement, values)
        started_at = self._now()
        key = (statement, *values.values())
        until, rows = self._kept.get(key, (started_at, []))
        if started_at < until:
            _FROM_MEMORY.inc()
            return rows
        _FROM_DATABASE.inc()
        rows = self._send(statement, values)
        if rows:
            left = [row.seconds_left for row in rows if getattr(row, "seconds_left", None) is not None]
            self._keep(key, started_at + min([self._seconds, *left]), rows)
        return rows

    def _send(self, statement: str, values: Mapping[str, Any]) -> list[Any]:
        with autocommit(self._sessions) as connection:
            return connection.execute(statement, values)

    def _keep(self, key: Hashable, until: float, rows: list[Any]) -> None:
        if len(self._kept) >= MOST_KEPT:
            self._kept = {}
        self._kept[key] = until, rows
