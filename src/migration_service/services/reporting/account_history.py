"""All stored data of one account: staged, created, and added since; and its events, newest first."""

from collections.abc import Sequence
from typing import Any

import msgspec
from sqlalchemy import Executable, select, text
from sqlalchemy.orm import Session

from migration_payloads.moments import write_moments
from migration_service.db.sql import OpenTransaction
from migration_service.errors import AccountNotFoundError
from migration_service.models import (
    Account,
    AccountImportProcess,
    Ledger,
    Note,
    PaymentInstruction,
    PaymentVendor,
    Statement,
    Transaction,
)
from migration_service.models.part import Part
from migration_service.services.accounts.ownership import read_owner
from migration_service.services.accounts.reading import find_account, read_parts
from migration_service.services.imports import storing
from migration_service.services.imports.status import REPORTED_STATUS
from migration_service.services.setup.suppliers import KnownSupplier
from migration_service.services.setup.teams import get_operations_team_name
from migration_service.states import BatchKind, ImportState, StatementOrigin, TransactionPeriod, UndoOutcome

_PROCESS = AccountImportProcess
#: The largest number of events listed for an account.
MOST = 200


def read_account_history(session: Session, supplier: KnownSupplier, number: str) -> dict[str, Any]:
    """Return all stored data of an account. Payloads are JSON text as stored.

    An erased account has only its numbers left. Raise AccountNotFoundError if the account is not staged.
    """
    process = session.execute(
        select(
            *(column for column in _PROCESS.__table__.columns if column.name != "payload"),
            _PROCESS.payload.op("::")(text("text")).label("payload"),
        ).where(_PROCESS.import_supplier_id == supplier.id, _PROCESS.external_account_number == number)
    ).one_or_none()
    if process is None:
        raise AccountNotFoundError
    found = storing.find(OpenTransaction.of(session), supplier.id, [number])[number]
    account = find_account(session, supplier.id, number)
    is_kept = account is not None and account.erased_at is None
    history = {
        "import_supplier": supplier.code,
        "external_account_number": number,
        "status": REPORTED_STATUS[found.state],
        "is_skipped": found.state is ImportState.SKIPPED,
        "staged": _read_staged(process) if process.payload_sha256 else None,
        "newer_version": read_newer_version(process),
        "created": _read_created(session, account) if account else None,
        "added": _read_added(session, account.id) if account and is_kept else None,
    }
    written: dict[str, Any] = write_moments(history)
    return written


def _read_staged(process: Any) -> dict[str, Any]:
    return {
        "staged_at": process.staged_at,
        "extracted_at": process.extracted_at,
        "profile": process.profile,
        "warnings": process.warnings or [],
        "payload": msgspec.Raw(process.payload.encode()) if process.payload else None,
    }


def read_newer_version(process: Any) -> dict[str, Any] | None:
    """Return the newer version of an account that was refused, with its errors, or None."""
    if process.refused_at is None:
        return None
    return {
        "refused_at": process.refused_at,
        "batch_id": process.refused_batch_id,
        "line_number": process.refused_line_number,
        "errors": process.refused_errors or [],
    }


def _read_created(session: Session, account: Account) -> dict[str, Any]:
    return {
        "operations_team_name": get_operations_team_name(session, account.operations_team_id),
        "service_account_number": account.service_account_number,
        "account_created_at": account.created_at,
        "erased_at": account.erased_at,
        **read_owner(session, account),
    }


def _read_added(session: Session, account_pk: int) -> dict[str, Any]:
    """Return the data added since the creation, with the time of each addition."""
    transactions = (
        select(Transaction.id, Transaction.created_at.label("added_at"), Ledger.ledger_code)
        .join(Ledger, Ledger.id == Transaction.ledger_pk)
        .where(Transaction.account_pk == account_pk, Transaction.period == TransactionPeriod.ADDED)
        .order_by(Transaction.id)
    )
    statements = (
        select(Statement.id, Statement.created_at.label("added_at"))
        .where(Statement.account_pk == account_pk, Statement.origin == StatementOrigin.ADDED)
        .order_by(Statement.id)
    )
    return {
        "notes": [_write_note(row) for row in session.execute(_notes(account_pk)).mappings()],
        "transactions": _read_parts(session, Transaction, transactions),
        "statements": _read_parts(session, Statement, statements),
        "payment_instructions": [dict(row) for row in session.execute(_instructions(account_pk)).mappings()],
    }


def _read_parts(session: Session, model: type[Part], statement: Executable) -> Sequence[dict[str, Any]]:
    rows = session.execute(statement).mappings().all()
    parts = read_parts(session, model, [row["id"] for row in rows])
    return [parts[row["id"]] | {name: row[name] for name in row if name != "id"} for row in rows]


def _notes(account_pk: int) -> Executable:
    columns = (Note.body, Note.documents, Note.created_at, Note.is_pinned, Note.unpin_at, Note.added_at)
    return select(*columns).where(Note.account_pk == account_pk).order_by(Note.id)


def _write_note(row: Any) -> dict[str, Any]:
    note = dict(row)
    paths = [{"document_path": document["document_path"]} for document in note.pop("documents")]
    return note | {"document_paths": paths}


def _instructions(account_pk: int) -> Executable:
    return (
        select(
            PaymentVendor.name.label("vendor"),
            PaymentInstruction.reference,
            PaymentInstruction.type,
            PaymentInstruction.created_at.label("added_at"),
        )
        .join(PaymentVendor, PaymentVendor.id == PaymentInstruction.payment_vendor_pk)
        .where(PaymentInstruction.account_pk == account_pk)
        .order_by(PaymentInstruction.id)
    )


def list_events(
    session: Session, process_id: int, account_id: int | None, *, was_undone: bool
) -> Sequence[Any]:
    """Return the added data, e-mails and undos of an account, newest first.

    Each has its time, its kind, how many items it is about, and an e-mail its state, or an undo its outcome
    and its id. `account_id` is None if the account does not exist now. The lines of undos have no index by
    account, so they are only read if `was_undone`.
    """
    values = {"process": process_id, "account": account_id, "was_undone": was_undone, "limit": MOST}
    return session.execute(_EVENTS, values).all()


_NONE = "NULL::text AS state, NULL::uuid AS undo_id"
_EVENTS = text(f"""
    SELECT added_at AS at, '{BatchKind.NOTES}' AS kind, count(*) AS items, {_NONE} FROM note
    WHERE account_pk = :account AND added_at IS NOT NULL GROUP BY 1
    UNION ALL
    SELECT created_at, '{BatchKind.TRANSACTIONS}', count(*), {_NONE} FROM "transaction"
    WHERE account_pk = :account AND period = '{TransactionPeriod.ADDED}' GROUP BY 1
    UNION ALL
    SELECT created_at, '{BatchKind.STATEMENTS}', count(*), {_NONE} FROM statement
    WHERE account_pk = :account AND origin = '{StatementOrigin.ADDED}' GROUP BY 1
    UNION ALL
    SELECT created_at, '{BatchKind.PAYMENT_INSTRUCTIONS}', count(*), {_NONE} FROM payment_instruction
    WHERE account_pk = :account GROUP BY 1
    UNION ALL
    SELECT coalesce(email.sent_at, email.created_at), 'email', 1, email.state, NULL
    FROM customer JOIN customer_email AS email ON email.customer_pk = customer.id
    WHERE customer.account_pk = :account
    UNION ALL
    SELECT line.finished_at, 'undo', 1, line.outcome, line.undo_id
    FROM undo_line AS line
    WHERE :was_undone AND line.account_import_process_id = :process AND line.finished_at IS NOT NULL
      AND line.outcome <> '{UndoOutcome.PENDING}'
    ORDER BY at DESC LIMIT :limit
""")
