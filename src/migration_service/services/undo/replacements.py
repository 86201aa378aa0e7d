"""Replacing created accounts by the newest version that was sent, without a file: named ones, or of a batch.

The accounts are the lines of a batch of pending accounts. Accounts of the target that were undone are created
by it, too, so that a wave that was undone or corrected is imported again.
"""

from collections import Counter
from collections.abc import Callable
from typing import Any
from uuid import UUID

from sqlalchemy import select, text
from sqlalchemy.orm import Session

from migration_payloads.normal_form import read_json
from migration_service import errors, states
from migration_service.db.cancelling import allow_minutes
from migration_service.models import OperationsTeam
from migration_service.services.batches.intake.options import REPLACE_DIFFERING, BatchOrder
from migration_service.services.batches.intake.quotas import BatchQuotas, lock_storing, require_room
from migration_service.services.batches.intake.upload import start_batch
from migration_service.services.batches.work.replacing import find_misfits, read_added
from migration_service.services.setup.suppliers import IS_NEW
from migration_service.services.undo.orders import UndoOrder, require_known
from migration_service.services.undo.preview import EXAMPLES
from migration_service.services.waves.acts import NOT_STARTED
from migration_service.services.waves.reading import find_wave

#: The number of accounts whose added data is compared with their newest version together.
PIECE = 500


def preview_replacement(session: Session, order: UndoOrder) -> dict[str, Any]:
    """Return the effect that a replacement of these accounts would have now, by the names of the interface.

    Nothing is changed. Raise RequestFailedValidationError with each number of an unknown account.
    """
    allow_minutes(session)
    _require_accounts(session, order)
    statement = _PREVIEW.format(judged=_judge(order), examples=EXAMPLES)
    found = [dict(row) for row in session.execute(text(statement), order.values()).mappings()]
    counts = Counter({it["code"]: it["accounts"] for it in found})
    misfits = _find_misfits(session, order)
    code = errors.AddedDataDoesNotFitError.code
    own = [{"code": code, "accounts": len(misfits), "examples": misfits[:EXAMPLES]}] if misfits else []
    return {
        "import_supplier": order.supplier.code,
        "accounts": counts.total(),
        "replaced": counts[_REPLACED] - len(misfits),
        "created": counts[_CREATED],
        "unchanged": counts[_UNCHANGED],
        "blockers": [it for it in found if it["code"] not in (_REPLACED, _CREATED, _UNCHANGED)] + own,
    }


def start_replacement(
    session: Session,
    order: UndoOrder,
    quotas: BatchQuotas,
    *,
    operations_team_name: str | None = None,
    api_key_id: int | None = None,
    on_accepted: Callable[[UUID], object] = lambda _batch_id: None,
) -> UUID:
    """Store the batch that replaces these accounts. Return its id, for the caller to feed it.

    Accounts that are created again after an undo get the team, by default that of the batch of the target.
    The others keep theirs. Raise RequestFailedValidationError with each number of an unknown account,
    NothingToReplaceError if there is no account to replace or create,
    TooManyUploadsError while another batch of the organisation is being stored, and the errors of
    `require_room` and `start_batch`.
    """
    allow_minutes(session)
    _require_accounts(session, order)
    owner = order.supplier.organisation_id
    found = session.execute(text(_FIND.format(judged=_judge(order))), order.values()).all()
    if not found:
        raise errors.NothingToReplaceError
    if not lock_storing(session, owner):
        raise errors.TooManyUploadsError
    require_room(session, owner, quotas)
    team_id = order.batch.operations_team_id if order.batch else found[0].operations_team_id
    team = session.scalar(select(OperationsTeam.name).where(OperationsTeam.id == team_id))
    batch = BatchOrder(
        mode=states.BatchMode.IMPORT,
        source=states.BatchSource.PENDING,
        options={REPLACE_DIFFERING: True},
        processes=[row.process_id for row in found],
        operations_team_name=operations_team_name or team,
        api_key_id=api_key_id,
        reason=order.reason,
        by=order.by,
    )
    return start_batch(session, order.supplier, batch, on_accepted=on_accepted)


def _require_accounts(session: Session, order: UndoOrder) -> None:
    """Raise RequestFailedValidationError with each number of which nothing is staged or created.

    Raise WaveStateError if the wave has not started: it creates its accounts when its turn comes.
    """
    wave = find_wave(session, order.batch.id) if order.batch else None
    if wave is not None and wave.state in NOT_STARTED:
        raise errors.WaveStateError(
            f"The wave is {wave.state}. Its accounts are created when it has started."
        )
    sent = {row.external_account_number for row in session.execute(_SENT, order.values())}
    detail = "No account {!r} is staged or created."
    require_known(order.external_account_numbers, sent, errors.NothingToReplaceError, detail)


def _find_misfits(session: Session, order: UndoOrder) -> list[str]:
    """Return the accounts that would be replaced if something that was added to them fitted."""
    misfits: list[str] = []
    statement, after = text(_WITH_ADDED.format(judged=_judge(order))), 0
    while True:
        values = order.values() | {"after": after, "limit": PIECE}
        rows = session.execute(statement, values).all()
        added = read_added(session, [row.account_id for row in rows])
        for row in rows:
            if row.account_id in added and find_misfits(read_json(row.payload), added[row.account_id]):
                misfits.append(row.external_account_number)
        if len(rows) < PIECE:
            return misfits
        after = rows[-1].process_id


def _judge(order: UndoOrder) -> str:
    """Return the statement that says of each account of the target what a replacement does with it."""
    wanted = """
        SELECT external_account_number FROM batch_line
        WHERE batch_id = :batch_id AND external_account_number IS NOT NULL
        UNION SELECT external_account_number FROM account_import_process
        WHERE id IN (SELECT account_import_process_id FROM batch_line WHERE batch_id = :batch_id)"""
    if order.batch is None:
        wanted = "SELECT DISTINCT unnest(CAST(:numbers AS text[])) AS external_account_number"
    return f"""
        SELECT process.id AS process_id, process.external_account_number, account.id AS account_id,
               account.operations_team_id, process.refused_payload, {_KIND} AS kind
        FROM ({wanted}) AS wanted
        JOIN account_import_process AS process
          ON process.import_supplier_id = :import_supplier_id
         AND process.external_account_number = wanted.external_account_number
        JOIN import_supplier AS supplier ON supplier.id = process.import_supplier_id
        LEFT JOIN account ON account.account_import_process_id = process.id"""


_SENT = text("""
    SELECT external_account_number FROM account_import_process
    WHERE import_supplier_id = :import_supplier_id AND external_account_number = ANY (:numbers)
""")
_REPLACED, _CREATED, _UNCHANGED = "replaced", "created", "unchanged"

_KIND = f"""
    CASE WHEN process.state = '{states.ImportState.IN_PROGRESS}'
         THEN '{errors.AccountImportInProgressError.code}'
         WHEN process.state = '{states.ImportState.SKIPPED}' THEN '{errors.AccountMarkedToSkipError.code}'
         WHEN account.erased_at IS NOT NULL THEN '{errors.AccountErasedError.code}'
         WHEN {IS_NEW} THEN '{errors.AccountLiveError.code}'
         WHEN process.refused_at IS NOT NULL AND process.refused_payload IS NULL
         THEN '{errors.NewerVersionRefusedError.code}'
         WHEN process.state = '{states.ImportState.PENDING}' THEN '{_CREATED}'
         WHEN process.refused_payload IS NULL THEN '{_UNCHANGED}' ELSE '{_REPLACED}' END"""

_PREVIEW = """
    SELECT kind AS code, count(*) AS accounts,
           (array_agg(external_account_number ORDER BY process_id))[1:{examples}] AS examples
    FROM ({judged}) AS judged GROUP BY kind ORDER BY accounts DESC, kind
"""

# With their newest version, for a worker to say of each whether it can be replaced.
_FIND = f"""
    SELECT process_id, operations_team_id FROM ({{judged}}) AS judged
    WHERE kind IN ('{_REPLACED}', '{_CREATED}') ORDER BY account_id, process_id
"""

_WITH_ADDED = f"""
    SELECT process_id, account_id, external_account_number, CAST(refused_payload AS text) AS payload
    FROM ({{judged}}) AS judged
    WHERE kind = '{_REPLACED}' AND process_id > :after
      AND (EXISTS (SELECT FROM "transaction" AS booking
                   WHERE booking.account_pk = account_id AND period = '{states.TransactionPeriod.ADDED}')
           OR EXISTS (SELECT FROM statement
                      WHERE statement.account_pk = account_id AND origin = '{states.StatementOrigin.ADDED}'))
    ORDER BY process_id LIMIT :limit
"""
