"""Finding out what became of a COMMIT whose answer was lost (decision 8).

A server that goes away during a COMMIT may have carried it out or not. Every transaction that has written
something therefore leaves a mark in the same commit: a row of `idempotency_key` with a random key. If the
answer is lost, the next primary server is asked for that row, and `commit` returns or raises accordingly.

`pg_xact_status` cannot tell: a new primary may give the number of a lost transaction to another one.
"""

import threading
import time
from collections.abc import Callable
from typing import Any
from uuid import UUID, uuid4

import psycopg
from psycopg.pq import TransactionStatus

from migration_service.errors import ServiceUnavailableError

#: The longest time that work waits for a primary server, in seconds.
HOLD_SECONDS = 10.0
#: Seconds between two questions for one.
PAUSE = 0.1

#: The endpoint in the rows that are marks.
MARK = "commit"
# Sent together, so that the mark takes no round trip of its own.
_MARK_AND_COMMIT = "SELECT leave_mark('{mark}'); COMMIT"
# While the transaction is still being committed, this waits for it. If it was not, it never will be, because
# its key is taken. The row of the question has another claim.
_ASK = """
    INSERT INTO idempotency_key (organisation_id, endpoint, key, request_sha256, claim_id)
    VALUES (0, 'commit', %s, '', %s) ON CONFLICT DO NOTHING"""
_FIND = "SELECT claim_id FROM idempotency_key WHERE organisation_id = 0 AND endpoint = %s AND key = %s"
_NOBODY = UUID(int=0)

_counts = threading.local()


def count_effects() -> int:
    """Return the number of transactions in which this thread has written something, and committed it."""
    return getattr(_counts, "effects", 0)


def add_effects(number: int) -> None:
    """Count as many transactions as this thread's, because it has let another one do its work."""
    _counts.effects = count_effects() + number


class KnownCommit(psycopg.Connection[Any]):
    """A connection whose `commit` either takes effect and returns, or raises and has had none."""

    #: Opens another connection with the same options.
    reconnect: "Callable[[], psycopg.Connection[Any]]"
    #: Whether it waits for the answer to a COMMIT.
    is_committing = False

    def commit(self) -> None:
        """Commit. If the answer is lost, ask the next primary server.

        Raise OperationalError if the transaction had no effect, and ServiceUnavailableError if nothing
        answers for HOLD_SECONDS, so that this is unknown.
        """
        if self.pgconn.transaction_status != TransactionStatus.INTRANS:
            super().commit()
            return
        mark = str(uuid4())
        has_written = True
        self.is_committing = True
        try:
            [[has_written]] = self.execute(_MARK_AND_COMMIT.format(mark=mark).encode(), prepare=False)
        except psycopg.OperationalError as error:
            # Otherwise it is an answer, or there is none in the time that a command allows.
            is_lost = self.closed or (error.sqlstate or "")[:3] in ("57P", "08P")
            if not is_lost or not self._has_committed(mark):
                raise
            self.close()
        finally:
            self.is_committing = False
        add_effects(int(has_written))

    def _has_committed(self, mark: str) -> bool:
        until = time.monotonic() + HOLD_SECONDS
        while time.monotonic() < until:
            try:
                with self.reconnect() as connection:
                    connection.autocommit = True
                    connection.execute(_ASK, [mark, _NOBODY])
                    found = connection.execute(_FIND, [MARK, mark]).fetchone()
                    return found is not None and str(found[0]) == mark
            except (psycopg.OperationalError, psycopg.errors.ReadOnlySqlTransaction):
                time.sleep(PAUSE)
        raise ServiceUnavailableError(
            "The database was lost while it stored this, so it is stored completely or not at all. "
            "Send the same request again."
        )
