"""Erasing the personal data of one account, at the request of the person concerned.

The two account numbers, and the amounts and dates of bookings, are kept, so that the books still balance and
nobody is billed twice. Everything that identifies or describes a person or a connection is erased.
docs/operators/personal-data.md covers copies outside the tables (backups, the write-ahead log).
"""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, cast
from uuid import UUID

from psycopg.errors import DeadlockDetected, LockNotAvailable
from sqlalchemy import CursorResult, Row
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

from migration_service.errors import AccountImportInProgressError, AccountNotStagedError, ShareUsedError
from migration_service.services.accounts import erasure_sql as sql
from migration_service.services.audit.entries import AuditAction, record
from migration_service.services.idempotency.keys import void_keys
from migration_service.services.imports.skipping import skip_accounts
from migration_service.services.setup.suppliers import KnownSupplier
from migration_service.states import ImportState


def erase_account(
    session: Session,
    supplier: KnownSupplier,
    external_account_number: str,
    *,
    reason: str,
    by: str | None = None,
) -> dict[str, Any]:
    """Erase all personal data of one account, and return how much of it, by the names of the interface.

    Erasing it again changes nothing.

    A created account keeps its numbers, ledgers, transactions and statements, without their texts. An account
    that was not created is removed and marked to be skipped, so that a batch that still contains it does not
    restore it. `reason` is recorded in the audit and must not contain personal data. `by` names the person
    who decided, if not the actor. Raise AccountImportInProgressError while the account is being created, and
    AccountNotStagedError if it is unknown. Raise ShareUsedError while another account of the organisation is
    being erased, because the search for its lines is expensive.
    """
    if not session.scalar(sql.HOLD_ORGANISATION, {"organisation_id": supplier.organisation_id}):
        raise ShareUsedError("Another erasure of your organisation is under way. Send one after the other.")
    values = {"import_supplier_id": supplier.id, "number": external_account_number}
    # The lines are locked first, as in a worker, so that the following statements see its outcomes.
    with _in_progress_if_locked():
        session.execute(sql.LOCK_COMPARISONS, values)
        session.execute(sql.LOCK_CERTIFICATES, values)
        lines = _erase_lines(session, values)
        process = session.execute(sql.LOCK_PROCESS, values).one_or_none()
    if process is not None and process.state == ImportState.IN_PROGRESS:
        raise AccountImportInProgressError
    _require_known(process, lines, session, values)
    customers = 0
    if process is not None and process.state == ImportState.IMPORTED:
        customers = _erase_created(session, process.id)
    else:
        _remove_staged(session, supplier, external_account_number, process)
    session.execute(sql.ERASE_COMPARED, values)
    record(
        session,
        AuditAction.ACCOUNT_ERASED,
        "account",
        process.id if process else f"{supplier.code}, never staged",
        organisation_id=supplier.organisation_id,
        details={
            "reason": reason,
            "batch_lines": lines,
            "customers": customers,
            **({"by": by} if by else {}),
        },
    )
    return {
        "external_account_number": external_account_number,
        "service_account_number": process.service_account_number if process else None,
        "payload": bool(process and process.has_payload),
        "batch_lines": lines,
        "customers": customers,
        "kept_answers": void_keys(session, supplier.code, [external_account_number]),
    }


@contextmanager
def _in_progress_if_locked() -> Iterator[None]:
    """Raise AccountImportInProgressError if a worker holds a lock for longer than the lock time-out."""
    try:
        yield
    except DBAPIError as error:
        if isinstance(error.orig, (LockNotAvailable, DeadlockDetected)):
            raise AccountImportInProgressError from error
        raise


def _require_known(process: Row[Any] | None, lines: int, session: Session, values: dict[str, Any]) -> None:
    if process is None and not lines and session.execute(sql.FIND_MARK, values).first() is None:
        raise AccountNotStagedError(
            f"Nothing is known of account {values['number']!r}. Check the number and the import supplier."
        )


def _erase_created(session: Session, process_id: int) -> int:
    """Erase the personal data of a created account, and return the number of its customers."""
    account_id = session.execute(sql.LOCK_ACCOUNT, {"process_id": process_id}).scalar_one()
    removed = {
        table: cast(CursorResult[Any], session.execute(statement, {"account_ids": [account_id]})).rowcount
        for table, statement in sql.erasing_statements().items()
    }
    session.execute(sql.MARK_ACCOUNT, {"account_id": account_id})
    session.execute(sql.ERASE_PROCESS, {"process_id": process_id})
    session.execute(sql.ERASE_ATTEMPTS, {"process_id": process_id})
    return removed["customer"]


def _remove_staged(session: Session, supplier: KnownSupplier, number: str, process: Row[Any] | None) -> None:
    if process is not None:
        session.execute(sql.REMOVE_ATTEMPTS, {"process_ids": [process.id]})
        session.execute(sql.REMOVE_PROCESSES, {"process_ids": [process.id]})
    skip_accounts(session, supplier.id, [number])
    session.execute(sql.MARK_ERASED, {"import_supplier_id": supplier.id, "number": number})


def erase_outcomes(
    session: Session, import_supplier_id: int, batch_id: UUID, line_numbers: Sequence[int] | None = None
) -> None:
    """Erase lines that have just got their outcome if their account was erased before.

    Without numbers, these are all lines of the batch that have failed.
    """
    values = {"import_supplier_id": import_supplier_id, "batch_id": batch_id}
    if line_numbers is None:
        session.execute(sql.ERASE_FAILED, values)
    elif line_numbers:
        session.execute(sql.ERASE_OUTCOMES, values | {"line_numbers": list(line_numbers)})


def remove_staged_again(session: Session, *, limit: int) -> int:
    """Remove accounts that were staged while they were being erased, and return their number.

    They are marked to be skipped, so they have not been processed.
    """
    ids = [row.id for row in session.execute(sql.LOCK_STAGED_AGAIN, {"limit": limit})]
    if ids:
        session.execute(sql.REMOVE_ATTEMPTS, {"process_ids": ids})
        session.execute(sql.REMOVE_PROCESSES, {"process_ids": ids})
    return len(ids)


def _erase_lines(session: Session, values: dict[str, Any]) -> int:
    """Erase the lines with the number and their acknowledgements, and return how many lines there were.

    A line without a number that can be read is searched for both spellings of the number.
    """
    number = values["number"]
    spelt = {name: json.dumps(number, ensure_ascii=escapes).encode() for name, escapes in _SPELLINGS}
    lines = session.execute(sql.ERASE_LINES, values | spelt).all()
    places = {"batch_ids": [it.batch_id for it in lines], "line_numbers": [it.line_number for it in lines]}
    session.execute(sql.ERASE_REASONS, values | places)
    return len(lines)


#: Parameters for the spellings: whether non-ASCII letters are escaped.
_SPELLINGS = (("plain", False), ("escaped", True))
