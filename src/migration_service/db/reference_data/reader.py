"""Looks rows up that hardly ever change, and keeps them in memory as long as the lease allows."""

from collections.abc import Collection, Mapping
from typing import Any

from sqlalchemy.orm import Session, sessionmaker

from migration_service.db.reference_data.lease import Lease
from migration_service.db.reference_data.listener import ChangeListener
from migration_service.db.statements import Statements, autocommit
from migration_service.metrics.process import REFERENCE_READS

_FROM_MEMORY = REFERENCE_READS.labels("memory")
_FROM_DATABASE = REFERENCE_READS.labels("database")

# Differs between a server and its standby, and after each restart.
_SERVER = "SELECT pg_postmaster_start_time() AS server"


class ReferenceReader(Statements):
    """Single statements, of which those in `kept` are answered from memory while nothing has changed.

    It holds no connection, and takes one from the pool for each statement that it has to send. A statement in
    `kept` may only read columns that notify (revision 0017; a test compares them). What is not found is not
    kept. Rows that expire have a column `seconds_left`.
    """

    def __init__(
        self,
        sessions: sessionmaker[Session],
        kept: Collection[str],
        lease: Lease,
        listener: ChangeListener | None,
    ) -> None:
        self._sessions = sessions
        self._lease = lease
        self._listener = listener
        #: Nothing is kept without a listener.
        self._statements = frozenset(kept) if listener else frozenset()

    def execute(self, statement: str, values: Mapping[str, Any]) -> list[Any]:
        """Return the rows of a statement as named tuples. Raise SQLAlchemy's DBAPIError if it fails."""
        if self._listener is None or statement not in self._statements:
            with autocommit(self._sessions) as statements:
                return statements.execute(statement, values)
        key = (statement, *values.values())
        rows = self._lease.find(key)
        if rows is not None:
            _FROM_MEMORY.inc()
            return rows
        self._listener.start()
        _FROM_DATABASE.inc()
        return self._look_up(key, statement, values)

    def close(self) -> None:
        """Stop listening."""
        if self._listener:
            self._listener.close()

    def _look_up(self, key: tuple[Any, ...], statement: str, values: Mapping[str, Any]) -> list[Any]:
        look_up = self._lease.begin_look_up()
        with autocommit(self._sessions) as statements:
            rows = statements.execute(statement, values)
            if not rows or not self._lease.holds:
                return rows
            ((server,),) = statements.execute(_SERVER, {})
        left = [row.seconds_left for row in rows if getattr(row, "seconds_left", None) is not None]
        self._lease.keep(key, rows, look_up, server, min(left, default=None))
        return rows
