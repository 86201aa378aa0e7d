"""Reading a created account in the structure of its payload (section 2.3)."""

from collections.abc import Collection
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from migration_service.db.base import Base, one_of
from migration_service.models import Account
from migration_service.models.part import (
    Part,
    Source,
    parent_column,
    parts_of,
    path_of,
    payload_columns,
    table_of,
)
from migration_service.services.accounts.notes import read_notes
from migration_service.services.accounts.payment_instructions import read_payment_instructions

#: Columns of an account that come from the import, not from the payload.
_NOT_SENT = {
    "id",
    "account_import_process_id",
    "import_supplier_id",
    "operations_team_id",
    "live_at",
    "live_by",
}


def find_account(session: Session, import_supplier_id: int, external_account_number: str) -> Account | None:
    """Return the account with this supplier and number, or None if it was not imported."""
    return session.execute(
        select(Account).where(
            Account.import_supplier_id == import_supplier_id,
            Account.external_account_number == external_account_number,
        )
    ).scalar_one_or_none()


def read_account(session: Session, account: Account) -> dict[str, Any]:
    """Return the whole account from its tables, added data included.

    Names, nesting and order are those of the payload. Values that were not sent are absent. Resolved document
    locations are next to their paths. Data that was added after the creation has separate members:
    `added_transactions` in a ledger, `added_statements`, `added_notes` and `added_payment_instructions`. A
    ledger_balance is the current one.
    """
    columns = [column for column in table_of(Account).columns if column.name not in _NOT_SENT]
    data = {column.name: getattr(account, column.name) for column in columns}
    _attach_parts(session, Account, {account.id: data})
    data |= {
        "added_notes": read_notes(session, account.id) or None,
        "added_payment_instructions": read_payment_instructions(session, account.id) or None,
    }
    return {name: value for name, value in data.items() if value is not None}


def read_parts(session: Session, model: type[Part], ids: Collection[int]) -> dict[int, dict[str, Any]]:
    """Return the rows of a part and everything below them, by key, in the structure of the payload."""
    rows = session.execute(select(table_of(model)).where(one_of(table_of(model).c.id, ids))).mappings()
    parts = {row["id"]: _part(model, row) for row in rows}
    if parts:
        _attach_parts(session, model, parts)
    return parts


def _attach_parts(session: Session, parent: type[Base], parents: dict[int, dict[str, Any]]) -> None:
    for model in parts_of(parent):
        key = parent_column(model)
        rows = session.execute(
            select(table_of(model))
            .where(one_of(key, parents))
            .order_by(table_of(model).c.position, table_of(model).c.id)
        ).mappings()
        parts: dict[int, dict[str, Any]] = {}
        for row in rows:
            part = parts[row["id"]] = _part(model, row)
            source = _source_of(model, row)
            if source is not None and source.single:
                parents[row[key]][source.key] = part
            else:
                name = source.key if source else f"added_{model.__tablename__}s"
                parents[row[key]].setdefault(name, []).append(part)
        if parts:
            _attach_parts(session, model, parts)


def _source_of(model: type[Part], row: Any) -> Source | None:
    """Return the source of a row, or None if it was added after the account was created."""
    for source in model.sources:
        if all(row[name] == value for name, value in source.constants):
            return source
    return None


def _part(model: type[Part], row: Any) -> dict[str, Any]:
    part: dict[str, Any] = {}
    for column in payload_columns(model):
        value = row[column.name]
        if value is not None:
            *above, last = path_of(column)
            target = part
            for name in above:
                target = target.setdefault(name, {})
            target[last] = value
    return part
