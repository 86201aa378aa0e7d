"""The rows of created accounts in all tables, for undo and erasure.

The conditions are generated from the foreign keys of the models, so a new table below the account needs no
change here.
"""

from functools import cache

from sqlalchemy import Table, TextClause, text

from migration_service.db.base import Base
from migration_service.models import (
    Account,
    Customer,
    CustomerEmail,
    Ledger,
    Note,
    PaymentInstruction,
    Statement,
    SupplyAddress,
    Transaction,
)
from migration_service.models.part import table_of
from migration_service.states import StatementOrigin, TransactionPeriod

_ACCOUNT = table_of(Account)
#: Tables whose rows say who somebody is, where they live, and what they were told, and nothing of the books.
_ABOUT_PERSONS = [table_of(model) for model in (Customer, SupplyAddress, Note, PaymentInstruction)]


@cache
def removal_statements() -> list[TextClause]:
    """Return the statements that remove accounts, in order. The caller holds the locks of the accounts.

    Customer e-mails are removed with the customers, so none is sent after the commit.
    """
    return [_delete(table, condition) for table, condition in reversed(rows_of_accounts().items())]


#: What a replaced account keeps, or gives up only when its new version exists.
_KEPT = [table_of(it) for it in (Account, Note, PaymentInstruction, Customer, CustomerEmail, Ledger)]


@cache
def renewal_statements() -> list[TextClause]:
    """Return the statements that remove what came with the payload of accounts, in order.

    The accounts, their customers and ledgers, and what was added to them are kept.
    """
    sent = "account_pk = ANY (:account_ids) AND {}"
    conditions = {
        _ACCOUNT: "id = ANY (:account_ids)",
        table_of(Transaction): sent.format(f"period <> '{TransactionPeriod.ADDED}'"),
        table_of(Statement): sent.format(f"origin <> '{StatementOrigin.ADDED}'"),
    }
    found = _find_below(conditions)
    # A table comes after those that it refers to.
    ordered = [table for table in Base.metadata.sorted_tables if table in found and table not in _KEPT]
    return [_delete(table, found[table]) for table in reversed(ordered)]


@cache
def statements_about_persons() -> dict[str, TextClause]:
    """Return the statements that remove all rows about persons and connections, by table and in order."""
    found = _find_below(dict.fromkeys(_ABOUT_PERSONS, "account_pk = ANY (:account_ids)"))
    return {table.name: _delete(table, condition) for table, condition in reversed(found.items())}


@cache
def rows_of_accounts() -> dict[Table, str]:
    """Return the condition for the rows of accounts in each table, from the account down to the leaves."""
    return _find_below({_ACCOUNT: "id = ANY (:account_ids)"})


def _find_below(conditions: dict[Table, str]) -> dict[Table, str]:
    for table in Base.metadata.sorted_tables:  # a table comes after those that it refers to
        if table not in conditions and (condition := _condition(table, conditions)):
            conditions[table] = condition
    return conditions


def _condition(table: Table, conditions: dict[Table, str]) -> str | None:
    """Return the condition for rows that refer to others, directly to the account if possible, or None."""
    parents = {key.column.table: key.parent.name for key in table.foreign_keys}
    if _ACCOUNT in parents and _ACCOUNT in conditions:
        return f"{parents[_ACCOUNT]} = ANY (:account_ids)"
    for parent, column in parents.items():
        if parent in conditions:
            # An array leaves the planner no other way than from the accounts down, whatever it knows.
            return f"{column} = ANY (ARRAY(SELECT id FROM {parent.name} WHERE {conditions[parent]}))"
    return None


def _delete(table: Table, condition: str) -> TextClause:
    return text(f"DELETE FROM {table.name} WHERE {condition}")
