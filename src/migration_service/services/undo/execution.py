"""Processing an undo in a worker, which reverts some accounts at a time.

The lines of the undo are the queue. A worker locks some pending lines, and records each outcome in the
transaction that removes the account. If the worker is killed, everything is rolled back and the lines are
free for the next worker. No account is partly removed, and no line is processed twice.

Accounts locked by others are left for later: by a request that adds data, a worker that sends an e-mail, an
erasure, a batch. So only operations on the account itself wait for an undo, and no deadlock is possible.
"""

from collections.abc import Collection, Sequence
from typing import Any
from uuid import UUID

from sqlalchemy import ARRAY, BigInteger, Row, Text, bindparam, text
from sqlalchemy.orm import Session

from migration_service.db.jobs import Progress
from migration_service.db.sql import OpenTransaction
from migration_service.models import Batch, ImportSupplier, Undo
from migration_service.services.accounts.removal import removal_statements
from migration_service.services.idempotency.keys import void_keys
from migration_service.services.imports import states
from migration_service.services.undo.added_data import remove_added_data, trace_of
from migration_service.services.undo.blockers_sql import judge
from migration_service.services.undo.states import complete_undo
from migration_service.states import BatchKind, UndoBlocker, UndoOutcome, UndoState

#: The number of accounts reverted in one transaction.
PIECE = 100
#: How often an account can be found locked by others before it is kept.
MAX_TRIES = 12
#: Seconds until such an account is tried again.
_TRY_AGAIN = 5


def revert_piece(session: Session, undo_id: UUID) -> Progress:
    """Process some accounts of an undo. The caller commits after each piece."""
    # Whoever cancels the undo waits for the accounts of this piece, so that the event of its end has them.
    held = {"read": True, "key_share": True}
    undo = session.get(Undo, undo_id, populate_existing=True, with_for_update=held)
    if undo is None or undo.state != UndoState.RUNNING:
        return Progress.OVER
    session.execute(_NOTE_WORK, {"undo_id": undo_id})
    lines = session.execute(_TAKE_LINES, {"undo_id": undo_id, "limit": PIECE, "try_again": _TRY_AGAIN}).all()
    if not lines:
        return Progress.OVER if complete_undo(session, undo_id) else Progress.WAITS
    # This keeps the supplier from going live during the transaction.
    session.execute(_LOCK_SUPPLIER, {"id": undo.import_supplier_id})
    process_ids = [line.account_import_process_id for line in lines]
    processes, accounts = _lock(session, process_ids)
    values = {
        "positions": [line.position for line in lines],
        "process_ids": process_ids,
        "service_account_numbers": [line.service_account_number for line in lines],
    }
    batch = session.get(Batch, undo.batch_id) if undo.batch_id else None
    adds_data = batch is not None and BatchKind(batch.kind).is_added_data
    of_batch = {"batch_id": undo.batch_id, "trace": trace_of(batch)}
    rows = session.execute(_JUDGE_ADDED, values | of_batch) if adds_data else None
    judged = [
        (line, line.process_id is None or (line.process_id in processes and line.account_id in accounts))
        for line in rows or session.execute(_JUDGE, values)
    ]
    _settle(session, undo, judged, batch if adds_data else None)
    return Progress.WORKED


def _lock(session: Session, process_ids: Sequence[int]) -> tuple[set[int], set[int | None]]:
    """Lock the processes, their accounts and the accounts' e-mails, except those locked or sent by others.

    Return the processes and the accounts that are locked, with None for no account.
    """
    processes = session.scalars(_LOCK_PROCESSES, {"process_ids": process_ids}).all()
    accounts = session.scalars(_LOCK_ACCOUNTS, {"process_ids": list(processes)}).all()
    emails = session.scalars(_LOCK_EMAILS, {"account_ids": list(accounts)}).all()
    being_sent = session.scalars(_FIND_OTHER_EMAILS, {"account_ids": list(accounts), "ids": list(emails)})
    return set(processes), {None, *accounts} - set(being_sent)


def _settle(
    session: Session, undo: Undo, lines: Sequence[tuple[Row[Any], bool]], adding: Batch | None
) -> None:
    """Revert the accounts without blockers that are locked, and write the outcome of each line.

    Of `adding`, a batch of added data, only what it has added is removed.
    """
    overrides = set(undo.overrides)
    revertible: list[Row[Any]] = []
    kept: dict[tuple[str, ...], list[int]] = {}
    busy: list[int] = []
    for line, is_locked in lines:
        reasons = tuple(code for code in line.blockers if code not in overrides)
        if not is_locked:
            busy.append(line.position)
        elif reasons:
            kept.setdefault(reasons, []).append(line.position)
        else:
            revertible.append(line)
    if revertible:
        if adding is None:
            _revert(session, undo, revertible)
        else:
            remove_added_data(session, undo, adding, [line.account_id for line in revertible])
        _write(session, undo.id, [line.position for line in revertible], UndoOutcome.REVERTED)
    for reasons, positions in kept.items():
        _write(session, undo.id, positions, UndoOutcome.KEPT, reasons)
    if busy:
        session.execute(_LEAVE, {"undo_id": undo.id, "positions": busy, "max_tries": MAX_TRIES})


def _revert(session: Session, undo: Undo, lines: Sequence[Row[Any]]) -> None:
    account_ids = [line.account_id for line in lines]
    session.execute(_RETIRE, {"account_ids": account_ids})
    for statement in removal_statements():
        session.execute(statement, {"account_ids": account_ids})
    states.revert(OpenTransaction.of(session), [line.process_id for line in lines])
    code = session.get_one(ImportSupplier, undo.import_supplier_id).code
    void_keys(session, code, [line.external_account_number for line in lines])


def _write(
    session: Session,
    undo_id: UUID,
    positions: Sequence[int],
    outcome: UndoOutcome,
    reasons: Collection[str] | None = None,
) -> None:
    values = {"outcome": outcome, "reasons": None if reasons is None else list(reasons)}
    session.execute(_WRITE, values | {"undo_id": undo_id, "positions": list(positions)})


_NOTE_WORK = text("""
    UPDATE undo SET dispatched_at = clock_timestamp()
    WHERE id IN (SELECT id FROM undo WHERE id = :undo_id FOR NO KEY UPDATE SKIP LOCKED)
""")

_TAKE_LINES = text(f"""
    SELECT position, account_import_process_id, service_account_number FROM undo_line
    WHERE undo_id = :undo_id AND outcome = '{UndoOutcome.PENDING}'
      AND (tried_at IS NULL OR abs(extract(epoch FROM clock_timestamp() - tried_at)) > :try_again)
    ORDER BY position LIMIT :limit FOR UPDATE SKIP LOCKED
""")

_LOCK_SUPPLIER = text("SELECT id FROM import_supplier WHERE id = :id FOR SHARE")

_PROCESS_IDS = bindparam("process_ids", type_=ARRAY(BigInteger))
_ACCOUNT_IDS = bindparam("account_ids", type_=ARRAY(BigInteger))

_LOCK_PROCESSES = text("""
    SELECT id FROM account_import_process WHERE id = ANY (:process_ids) FOR UPDATE SKIP LOCKED
""").bindparams(_PROCESS_IDS)

_LOCK_ACCOUNTS = text("""
    SELECT id FROM account WHERE account_import_process_id = ANY (:process_ids) FOR UPDATE SKIP LOCKED
""").bindparams(_PROCESS_IDS)

_LOCK_EMAILS = text("""
    SELECT id FROM customer_email
    WHERE customer_pk = ANY (ARRAY(SELECT id FROM customer WHERE account_pk = ANY (:account_ids)))
      AND (leased_until IS NULL OR leased_until <= clock_timestamp())
    FOR UPDATE SKIP LOCKED
""").bindparams(_ACCOUNT_IDS)

_FIND_OTHER_EMAILS = text("""
    SELECT account_pk FROM customer WHERE id = ANY (ARRAY(
        SELECT customer_pk FROM customer_email
        WHERE customer_pk = ANY (ARRAY(SELECT id FROM customer WHERE account_pk = ANY (:account_ids)))
          AND NOT id = ANY (:ids)))
""").bindparams(_ACCOUNT_IDS, bindparam("ids", type_=ARRAY(BigInteger)))

_TAKEN = """
    SELECT * FROM unnest(CAST(:positions AS bigint[]), CAST(:process_ids AS bigint[]),
                         CAST(:service_account_numbers AS text[]))
        AS line (position, process_id, service_account_number)"""
_JUDGE, _JUDGE_ADDED = text(judge(_TAKEN)), text(judge(_TAKEN, added=True))

_RETIRE = text("""
    INSERT INTO retired_account_number (service_account_number)
    SELECT service_account_number FROM account WHERE id = ANY (:account_ids)
""").bindparams(_ACCOUNT_IDS)

_POSITIONS = bindparam("positions", type_=ARRAY(BigInteger))

_WRITE = text("""
    UPDATE undo_line SET outcome = :outcome, reasons = :reasons, finished_at = now()
    WHERE undo_id = :undo_id AND position = ANY (:positions)
""").bindparams(_POSITIONS, bindparam("reasons", type_=ARRAY(Text)))

_LEAVE = text(f"""
    UPDATE undo_line SET tries = tries + 1, tried_at = clock_timestamp(),
        outcome = CASE WHEN tries + 1 < :max_tries THEN outcome ELSE '{UndoOutcome.KEPT}' END,
        reasons = CASE WHEN tries + 1 < :max_tries THEN NULL ELSE ARRAY['{UndoBlocker.BUSY}'] END,
        finished_at = CASE WHEN tries + 1 < :max_tries THEN NULL ELSE now() END
    WHERE undo_id = :undo_id AND position = ANY (:positions)
""").bindparams(_POSITIONS)
