"""Accounts excluded by operators, which are neither staged nor created (sections 3.2 and 4.2).

A staged account gets the state SKIPPED, and any other account a mark. A mark is not an import process
(section 2.4), so the account appears in no status and no list.
"""

from collections.abc import Sequence
from typing import Any

from sqlalchemy.orm import Session

from migration_payloads.schemas.identifiers import identifier_fault
from migration_service.db.sql import OpenTransaction
from migration_service.errors import AccountNotStagedError, NameInvalidError, quoted
from migration_service.models import ImportSupplier
from migration_service.services.audit.entries import AuditAction, record
from migration_service.services.imports import states, storing
from migration_service.services.imports.states import SKIP, UNSKIP, Change, refusal
from migration_service.services.setup.names import is_name

_MARK = """
    INSERT INTO skip_mark (import_supplier_id, external_account_number)
    SELECT %(import_supplier_id)s, number FROM unnest(%(numbers)s::text[]) AS number
    WHERE NOT EXISTS (SELECT FROM account_import_process
                      WHERE import_supplier_id = %(import_supplier_id)s AND external_account_number = number)
    ORDER BY number
    ON CONFLICT DO NOTHING
    RETURNING external_account_number
"""

_UNMARK = """
    DELETE FROM skip_mark
    WHERE import_supplier_id = %(import_supplier_id)s AND external_account_number = ANY(%(numbers)s)
    RETURNING external_account_number
"""


def skip_accounts(
    session: Session,
    import_supplier_id: int,
    numbers: Sequence[str],
    *,
    reason: str | None = None,
    by: str | None = None,
) -> None:
    """Exclude accounts, staged or not, until `unskip_accounts`. Accounts skipped already are not changed.

    The audit keeps the reason of a person, and `by`, who decided if that is not the actor.
    Raise NameInvalidError if an external account number is not valid, and the error of the first account that
    is being created or exists. The caller then rolls back.
    """
    for number in numbers:
        fault = identifier_fault(number)
        if fault or not is_name(number):
            raise NameInvalidError(
                f"{quoted(number)} cannot be an external account number. {fault or ''}".rstrip()
            )
    transaction = OpenTransaction.of(session)
    values = {"import_supplier_id": import_supplier_id, "numbers": list(numbers)}
    marked = transaction.execute(_MARK, values)
    # After the marks, because an account that is staged in between finds its mark.
    changed = states.change(transaction, import_supplier_id, numbers, SKIP)
    _check(transaction, import_supplier_id, numbers, SKIP)
    told = {"not_staged": len(marked), "because": reason, "by": by}
    _record(session, AuditAction.ACCOUNT_SKIPPED, import_supplier_id, changed, **told)


def unskip_accounts(session: Session, import_supplier_id: int, numbers: Sequence[str]) -> None:
    """Include accounts again. Staged accounts that are not skipped are not changed.

    Raise AccountNotStagedError for an account that is neither staged nor marked, and the error of the first
    account that is being created or exists. The caller then rolls back.
    """
    transaction = OpenTransaction.of(session)
    values = {"import_supplier_id": import_supplier_id, "numbers": list(numbers)}
    unmarked = {row.external_account_number for row in transaction.execute(_UNMARK, values)}
    changed = states.change(transaction, import_supplier_id, numbers, UNSKIP)
    _check(transaction, import_supplier_id, [it for it in numbers if it not in unmarked], UNSKIP)
    _record(session, AuditAction.ACCOUNT_UNSKIPPED, import_supplier_id, changed, not_staged=len(unmarked))


def _record(
    session: Session,
    action: AuditAction,
    import_supplier_id: int,
    changed: Sequence[int],
    **told: Any,
) -> None:
    """Record what was done to staged accounts, and to `not_staged` others, with what else is told.

    An account that is not staged has no id, and the audit must not contain its number. If there is a reason,
    the entry of the supplier, which is in its report, has it, too.
    """
    supplier = session.get_one(ImportSupplier, import_supplier_id)
    owner, marks = supplier.organisation_id, told.pop("not_staged")
    told = {name: it for name, it in told.items() if it}
    for process_id in changed:
        record(session, action, "account", process_id, organisation_id=owner, details=told or None)
    if marks or (told and changed):
        details = {"not_staged": marks, **({"staged": len(changed)} if told and changed else {}), **told}
        record(session, action, "import_supplier", supplier.code, organisation_id=owner, details=details)


def _check(
    transaction: OpenTransaction, import_supplier_id: int, numbers: Sequence[str], made: Change
) -> None:
    found = storing.find(transaction, import_supplier_id, numbers)
    for number in numbers:
        if number not in found:
            raise AccountNotStagedError(found=number)
        process = found[number]
        error = refusal(process.state, number, process.service_account_number)
        if process.state is not made.target and error:
            raise error
