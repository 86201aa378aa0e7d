"""Starting an undo, which records the accounts for workers to revert."""

from collections.abc import Callable
from uuid import UUID

from sqlalchemy import func, select, text
from sqlalchemy.orm import Session

from migration_service import errors
from migration_service.db.base import new_id
from migration_service.db.cancelling import allow_minutes
from migration_service.models import Undo
from migration_service.origin import current_origin
from migration_service.schemas.events import EventType
from migration_service.services.access.operators import OperatorRole
from migration_service.services.accounts.ownership import has_gone_live
from migration_service.services.audit.entries import AuditAction, record
from migration_service.services.batches.undo_guards import require_batch_at_rest, require_no_undo
from migration_service.services.events import recording as events
from migration_service.services.undo import states
from migration_service.services.undo.blockers_sql import CREATED_BY_BATCH, OF_BATCH, OF_NUMBERS
from migration_service.services.undo.orders import UndoOrder, require_known, require_overrides_allowed
from migration_service.services.waves.acts import hold_plan
from migration_service.states import ImportState, UndoOutcome

#: The largest number of unfinished undos of an organisation.
MOST_RUNNING = 5


def start_undo(
    session: Session,
    order: UndoOrder,
    *,
    role: OperatorRole | None = None,
    on_accepted: Callable[[UUID], object] = lambda _undo_id: None,
) -> UUID:
    """Store an undo with the accounts to revert. Return its id, for the caller to dispatch it.

    `role` is the role of the operator, or None for an API key. Blockers are determined when a worker takes an
    account. `on_accepted` is told the id before the accounts are stored, once nothing can be wrong with the
    order any more. Raise NothingToUndoError if none of the batch's accounts exists,
    RequestFailedValidationError with each number without an account, AccountInUndoError with each account in
    an unfinished undo, and other errors if the supplier, the batch, its plan, the role or the number of undos
    does not allow it.
    """
    require_overrides_allowed(order.overrides, role)
    require_not_live(session, order.supplier.id)
    _require_share(session, order.supplier.organisation_id)
    if order.batch:
        hold_plan(session, order.batch)
        session.flush()
        require_no_undo(session, order.batch)
        require_batch_at_rest(order.batch)
    else:
        _require_undoable(session, order)
    if order.batch and session.scalar(_HAS_ACCOUNTS, order.values()) is None:
        raise errors.NothingToUndoError
    origin = current_origin()
    undo = Undo(
        id=new_id(),
        organisation_id=order.supplier.organisation_id,
        import_supplier_id=order.supplier.id,
        batch_id=order.batch and order.batch.id,
        reason=order.reason,
        overrides=sorted(order.overrides),
        started_by=order.by or origin.actor,
        **origin.trace(),
    )
    session.add(undo)
    on_accepted(undo.id)
    allow_minutes(session)
    wanted = _ADD_OF_BATCH if order.batch else _ADD_OF_NUMBERS
    undo.accounts = session.execute(wanted, order.values() | {"undo_id": undo.id}).scalar_one()
    if not undo.accounts:
        raise errors.NothingToUndoError
    details = {
        "import_supplier": order.supplier.code,
        "batch_id": order.batch and str(order.batch.id),
        "accounts": undo.accounts,
        "reason": order.reason,
        "overrides": undo.overrides,
        **({"by": order.by} if order.by else {}),
    }
    owner = undo.organisation_id
    record(session, AuditAction.UNDO_STARTED, "undo", undo.id, organisation_id=owner, details=details)
    told = {"undo_id": undo.id, "batch_id": undo.batch_id, "accounts": undo.accounts}
    supplier = undo.import_supplier_id
    events.record(session, EventType.UNDO_STARTED, told, organisation_id=owner, import_supplier_id=supplier)
    return undo.id


def cancel_undo(session: Session, undo: Undo) -> None:
    """Cancel an undo permanently. Raise UndoStateError if it has ended."""
    states.cancel(session, undo)
    owner = undo.organisation_id
    record(session, AuditAction.UNDO_CANCELLED, "undo", undo.id, organisation_id=owner)


def require_not_live(session: Session, import_supplier_id: int) -> None:
    if has_gone_live(session, import_supplier_id):
        raise errors.ImportSupplierLiveError


def _require_share(session: Session, organisation_id: int) -> None:
    """Raise ShareUsedError if the organisation has MOST_RUNNING undos. Concurrent starts wait here."""
    session.execute(_LOCK_ORGANISATION, {"organisation_id": organisation_id})
    running = select(func.count()).where(Undo.organisation_id == organisation_id, Undo.finished_at.is_(None))
    if (session.scalar(running) or 0) >= MOST_RUNNING:
        detail = f"Your organisation has {MOST_RUNNING} undos that have not ended."
        raise errors.ShareUsedError(f"{detail} Wait until one of them has.")


def _require_undoable(session: Session, order: UndoOrder) -> None:
    """Raise an error with each number without an account, or else with each account in an undo."""
    in_undo = {row.external_account_number: row.in_undo for row in session.execute(_CREATED, order.values())}
    detail = "Account {!r} is not imported. Only existing accounts can be undone."
    require_known(order.external_account_numbers, in_undo, errors.NothingToUndoError, detail)
    running = [
        errors.ErrorItem(
            errors.AccountInUndoError.code,
            f"Account {number!r} is in an undo that has not ended.",
            f"external_account_numbers.{index}",
        )
        for index, number in enumerate(order.external_account_numbers)
        if in_undo[number]
    ]
    if running:
        raise errors.AccountInUndoError(running[0].detail, errors=running)


# Transactions that start undos for one organisation wait for each other. Foreign keys to it do not wait.
_LOCK_ORGANISATION = text("SELECT id FROM organisation WHERE id = :organisation_id FOR NO KEY UPDATE")

_CREATED = text(f"""
    SELECT external_account_number,
           EXISTS (SELECT FROM undo JOIN undo_line ON undo_line.undo_id = undo.id
                   WHERE undo.finished_at IS NULL AND undo.import_supplier_id = :import_supplier_id
                     AND undo_line.account_import_process_id = process.id
                     AND undo_line.outcome = '{UndoOutcome.PENDING}') AS in_undo
    FROM account_import_process AS process
    WHERE import_supplier_id = :import_supplier_id AND external_account_number = ANY (:numbers)
      AND state = '{ImportState.IMPORTED}'
""")

_ADD = """
    WITH added AS (
        INSERT INTO undo_line (undo_id, position, account_import_process_id, service_account_number)
        SELECT :undo_id, position, process_id, service_account_number FROM ({wanted}) AS wanted
        RETURNING 1)
    SELECT count(*) FROM added
"""
_ADD_OF_BATCH = text(_ADD.format(wanted=OF_BATCH))
_HAS_ACCOUNTS = text(f"SELECT 1 {CREATED_BY_BATCH} LIMIT 1")
_ADD_OF_NUMBERS = text(_ADD.format(wanted=OF_NUMBERS))
