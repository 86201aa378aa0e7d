"""Leaving a server that was the primary and does not know that it is no more (decision 8).

A primary whose host was frozen goes on for some seconds after it was replaced, and answers from the past. It
writes on the timeline that it had, and each promotion begins a greater one.
"""

from collections.abc import Callable
from threading import Lock
from typing import Any

import psycopg

# A server that only reads has no timeline of its own to write on.
_READ = """
    SELECT system_identifier,
        CASE WHEN NOT pg_is_in_recovery() THEN left(pg_walfile_name(pg_current_wal_lsn()), 8) END
    FROM pg_control_system()"""


class Timelines:
    """The greatest timeline that the connections of an engine have seen."""

    def __init__(self) -> None:
        self._database = 0
        self._greatest = ""
        # Between comparing and remembering, another thread may meet the new primary.
        self._lock = Lock()

    def check(self, connect: "Callable[[], psycopg.Connection[Any]]") -> "psycopg.Connection[Any]":
        """Return a new connection. Raise OperationalError if its server was replaced by another primary."""
        connection = connect()
        try:
            self._compare(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _compare(self, connection: "psycopg.Connection[Any]") -> None:
        connection.autocommit = True
        try:
            [(database, timeline)] = connection.execute(_READ).fetchall()
        except (psycopg.errors.FeatureNotSupported, psycopg.errors.InsufficientPrivilege):
            return  # as of some hosted servers, which replace their primary in their own way
        finally:
            if not connection.closed:
                connection.autocommit = False
        if timeline is None:
            return
        with self._lock:
            if database == self._database and timeline < self._greatest:
                raise psycopg.OperationalError(
                    f"The server writes on timeline {timeline}, and was replaced by a primary on timeline "
                    f"{self._greatest}. If an older backup was restored, restart the service."
                )
            self._database, self._greatest = database, timeline
