"""Deferral of lines whose account is yet to be created, or is locked by another transaction.

A line is deferred while its account is being created, or is on a line of an unfinished import batch. Its
chunk is dispatched again from time to time, and as soon as an import batch of its supplier ends. The line
gets its outcome once the account exists, is no longer expected, or the longest deferral has passed.
"""

from collections.abc import Collection
from dataclasses import dataclass

from sqlalchemy import ARRAY, Text, bindparam, func, select, text, update
from sqlalchemy.orm import Session

from migration_service.db.base import one_of
from migration_service.models import Account, BatchChunk, BatchLine
from migration_service.states import BatchKind, BatchMode, ImportState, LineStatus

#: The default of the longest deferral of a line, in seconds.
LONGEST_DEFERRAL = 7 * 24 * 3600.0

#: Condition: a pending chunk is due. `batch` is the row of its batch.
IS_DUE = f"""(
    not_before IS NULL OR not_before <= now() OR dispatched_at < (
        SELECT max(ended.finished_at) FROM batch AS ended
        WHERE ended.import_supplier_id = batch.import_supplier_id
          AND ended.kind = '{BatchKind.ACCOUNTS}' AND ended.mode = '{BatchMode.IMPORT}'))"""


@dataclass(frozen=True, slots=True)
class Woken:
    """The result of waking the deferred lines of a chunk."""

    #: The number of lines that are pending again.
    lines: int
    #: Whether the longest deferral has passed, so that no line is deferred again.
    is_late: bool


def wake_lines(
    session: Session, import_supplier_id: int, chunk: BatchChunk, longest_deferral: float
) -> Woken:
    """Make deferred lines of a chunk pending again if their account is no longer expected."""
    if chunk.deferred_since is None:
        return Woken(0, is_late=False)
    late = func.now() - chunk.deferred_since > func.make_interval(0, 0, 0, 0, 0, 0, longest_deferral)
    is_late = bool(session.scalar(select(late)))
    deferred = (
        BatchLine.batch_id == chunk.batch_id,
        BatchLine.chunk_line == chunk.first_line,
        BatchLine.status == LineStatus.DEFERRED,
    )
    waiting: Collection[str] = ()
    if not is_late:
        numbers = session.scalars(select(BatchLine.external_account_number).where(*deferred).distinct())
        waiting = find_coming(session, import_supplier_id, [number for number in numbers if number])
    woken = session.execute(
        update(BatchLine)
        .where(*deferred, ~one_of(BatchLine.external_account_number.expression, waiting))
        .values(status=LineStatus.PENDING, warnings=None)
        .returning(BatchLine.line_number)
    )
    return Woken(len(woken.all()), is_late)


def find_deferred(session: Session, chunk: BatchChunk, numbers: Collection[str]) -> set[str]:
    """Return the accounts with deferred lines in the chunk. Their other lines have to wait behind these."""
    if chunk.deferred_since is None:
        return set()
    found = session.scalars(
        select(BatchLine.external_account_number)
        .where(
            BatchLine.batch_id == chunk.batch_id,
            BatchLine.chunk_line == chunk.first_line,
            BatchLine.status == LineStatus.DEFERRED,
            one_of(BatchLine.external_account_number.expression, numbers),
        )
        .distinct()
    )
    return {number for number in found if number}


def find_coming(session: Session, import_supplier_id: int, numbers: Collection[str]) -> set[str]:
    """Return the external account numbers that have no account yet, but are expected to get one.

    Expected accounts are read before existing ones, so an account that is created in between is never
    reported as missing.
    """
    if not numbers:
        return set()
    values = {"import_supplier_id": import_supplier_id, "numbers": list(numbers)}
    coming = set(session.scalars(_COMING, values))
    return coming - find_existing(session, import_supplier_id, coming) if coming else coming


def find_existing(session: Session, import_supplier_id: int, numbers: Collection[str]) -> set[str]:
    """Return the external account numbers that have an account, locked or not."""
    return set(
        session.scalars(
            select(Account.external_account_number).where(
                Account.import_supplier_id == import_supplier_id,
                one_of(Account.external_account_number.expression, numbers),
            )
        )
    )


_COMING = text(f"""
    SELECT external_account_number FROM account_import_process
    WHERE import_supplier_id = :import_supplier_id AND external_account_number = ANY (:numbers)
      AND state = '{ImportState.IN_PROGRESS}'
    UNION
    SELECT line.external_account_number
    FROM batch JOIN batch_line AS line ON line.batch_id = batch.id
    WHERE batch.import_supplier_id = :import_supplier_id AND batch.kind = '{BatchKind.ACCOUNTS}'
      AND batch.mode = '{BatchMode.IMPORT}' AND batch.finished_at IS NULL AND line.chunk_line IS NULL
      AND line.external_account_number = ANY (:numbers) AND line.status = '{LineStatus.PENDING}'
""").bindparams(bindparam("numbers", type_=ARRAY(Text)))
