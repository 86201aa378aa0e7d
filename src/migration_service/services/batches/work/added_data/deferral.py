"""Deferral of lines whose account is yet to be created, or is locked by another transaction.

A line is deferred while its account is being created, or is on a line of an unfinished import batch. Its
chunk is dispatched again from time to time, and as soon as an import batch of its supplier ends. The line
gets its outcome once the account exists, is no longer expected, or the longest deferral has passed.
"""

from collections.abc import Collection
from dataclasses import dataclass

from sqlalchemy import ARRAY, ColumnElement, Text, and_, bindparam, func, select, text, update
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
    waiting: Collection[str] = ()
    if not is_late:
        waiting = find_coming(session, import_supplier_id, find_deferred(session, chunk))
    woken = session.execute(
        update(BatchLine)
        .where(_is_deferred(chunk), ~one_of(BatchLine.external_account_number.expression, waiting))
        .values(status=LineStatus.PENDING, warnings=None)
        .returning(BatchLine.line_number)
    )
    return Woken(len(woken.all()), is_late)


def find_deferred(session: Session, chunk: BatchChunk, numbers: Collection[str] | None = None) -> set[str]:
    """Return the accounts with deferred lines in the chunk, of all accounts or of these.

    Their other lines have to wait behind the deferred ones.
    """
    if chunk.deferred_since is None:
        return set()
    found = select(BatchLine.external_account_number).where(_is_deferred(chunk)).distinct()
    if numbers is not None:
        found = found.where(one_of(BatchLine.external_account_number.expression, numbers))
    return {number for number in session.scalars(found) if number}


def _is_deferred(chunk: BatchChunk) -> ColumnElement[bool]:
    own = and_(BatchLine.batch_id == chunk.batch_id, BatchLine.chunk_line == chunk.first_line)
    return and_(own, BatchLine.status == LineStatus.DEFERRED)


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
    wanted = one_of(Account.external_account_number.expression, numbers)
    existing = select(Account.external_account_number).where(wanted)
    return set(session.scalars(existing.where(Account.import_supplier_id == import_supplier_id)))


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
