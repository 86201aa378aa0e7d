"""Lines that wait: for an account that is still to come, or for somebody else to be done with it.

A line is deferred while its account is being created, or is on a line of an import batch that is not over.
Its chunk is dispatched again from time to time, and as soon as an import batch of its supplier has ended.
Once the account is no longer to come, or the time for waiting is up, the line gets its outcome.
"""

from collections.abc import Collection
from dataclasses import dataclass

from sqlalchemy import ARRAY, Text, bindparam, func, select, text, update
from sqlalchemy.orm import Session

from migration_service.db.base import one_of
from migration_service.models import Account, BatchChunk, BatchLine
from migration_service.states import BatchKind, BatchMode, ImportState, LineStatus

#: Seconds that a line is deferred at most, if no setting says otherwise.
LONGEST_DEFERRAL = 7 * 24 * 3600.0

#: Whether a pending chunk is to be worked on now. `batch` is the row of its batch.
IS_DUE = f"""(
    not_before IS NULL OR not_before <= now() OR dispatched_at < (
        SELECT max(ended.finished_at) FROM batch AS ended
        WHERE ended.import_supplier_id = batch.import_supplier_id
          AND ended.kind = '{BatchKind.ACCOUNTS}' AND ended.mode = '{BatchMode.IMPORT}'))"""


@dataclass(frozen=True, slots=True)
class Woken:
    """What became of the deferred lines of a chunk when it was taken again."""

    #: How many are pending again.
    lines: int
    #: Whether the time for waiting is up, so that no line is deferred again.
    is_late: bool


def wake_lines(
    session: Session, import_supplier_id: int, chunk: BatchChunk, longest_deferral: float
) -> Woken:
    """Make those deferred lines of a chunk pending again whose account is no longer to come."""
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
    """Return which of these accounts have deferred lines in the chunk. Their other lines wait behind them."""
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
    """Return which of these external account numbers have no account yet, and will have one if all goes well.

    What is still to come is read before what exists. So an account that is created meanwhile is never taken
    for one that does not exist.
    """
    if not numbers:
        return set()
    values = {"import_supplier_id": import_supplier_id, "numbers": list(numbers)}
    coming = set(session.scalars(_COMING, values))
    return coming - find_existing(session, import_supplier_id, coming) if coming else coming


def find_existing(session: Session, import_supplier_id: int, numbers: Collection[str]) -> set[str]:
    """Return which of these external account numbers have an account, locked or not."""
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
