"""Rows of staged and created accounts and of undos, as tests need them."""

from datetime import UTC, datetime
from typing import Any

from sqlalchemy.orm import Session

from migration_service.db.base import new_id
from migration_service.models import Account, BatchLine, Undo, UndoLine
from support.factories import Customer
from support.rows import Owner, add, find_supplier, make_account, make_process, team_of

MOMENT = datetime(2026, 3, 2, 12, tzinfo=UTC)


def add_pending(session: Session, customer: Customer, *numbers: str, **values: Any) -> list[int]:
    """Insert staged accounts. Return the ids of their import processes."""
    given = {"state": "PENDING", "rules_version": "1", "profile": "lenient"} | values
    return [make_process(session, customer, number, **given).id for number in numbers]


def add_account(session: Session, customer: Customer, number: str, **values: Any) -> Account:
    """Insert an account that was created, with its import process. `values` are of the process."""
    given = {"service_account_number": f"A-{number}", "account_created_at": MOMENT}
    process = make_process(session, customer, number, **given | values)
    return make_account(session, process, operations_team_id=team_of(customer))


def add_line(session: Session, batch_id: Any, line_number: int, number: str, **values: Any) -> None:
    """Insert a line of a batch that has created the account of this number."""
    given = {"status": "IMPORTED", "service_account_number": f"A-{number}"} | values
    keys = {"batch_id": batch_id, "line_number": line_number, "external_account_number": number}
    add(session, BatchLine(**keys, **given))


def add_undo(session: Session, owner: Owner, *accounts: Account, **values: Any) -> Undo:
    """Insert an undo with a pending line for each of these accounts, the last one first."""
    supplier = find_supplier(session, owner)
    given = {"reason": "because"} | values
    keys = {"organisation_id": supplier.organisation_id, "import_supplier_id": supplier.id}
    undo = add(session, Undo(id=new_id(), **keys, **given))
    for position, account in reversed([*enumerate(accounts, 1)]):
        process_id = account.account_import_process_id
        add_undo_line(session, undo, position, process_id, account.service_account_number)
    session.refresh(undo)
    return undo


def add_undo_line(
    session: Session, undo: Undo, position: int, process_id: int, number: str, **values: Any
) -> None:
    """Insert a line of an undo."""
    keys = {"account_import_process_id": process_id, "service_account_number": number}
    add(session, UndoLine(undo_id=undo.id, position=position, **keys, **values))
