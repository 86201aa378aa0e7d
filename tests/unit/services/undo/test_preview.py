"""What an undo would do: what blocks which accounts, and how many e-mails would be withdrawn."""

from typing import Any

from sqlalchemy import text
from sqlalchemy.orm import Session

from migration_service.services.undo.orders import UndoOrder
from migration_service.services.undo.preview import UndoPreview, preview_undo
from support.factories import Customer
from unit.services.undo.undo_rows import find_supplier


def _preview(session: Session, customer: Customer, *numbers: str, **values: Any) -> UndoPreview:
    supplier = find_supplier(session, customer)
    return preview_undo(session, UndoOrder(supplier=supplier, external_account_numbers=numbers, **values))


def test_to_judge_a_large_batch_may_take_ten_minutes(session: Session, customer: Customer) -> None:
    _preview(session, customer, "a")
    assert session.scalar(text("SHOW statement_timeout")) == "10min"
