"""Removing created accounts with everything that refers to them, in all tables.

The statements are generated from the foreign keys of the models, from the leaves up to the account, so a new
table below the account needs no change here.
"""

from functools import cache

from sqlalchemy import Table, TextClause, text

from migration_service.db.base import Base
from migration_service.models import Account
from migration_service.models.part import table_of


@cache
def removal_statements() -> list[TextClause]:
    """Return the statements that remove accounts, in order. The caller holds the locks of the accounts.

    Customer e-mails are removed with the customers, so none is sent after the commit.
    """
    account = table_of(Account)
    conditions = {account: "id = ANY (:account_ids)"}
    for table in Base.metadata.sorted_tables:  # a table comes after those that it refers to
        if table is not account and (condition := _condition(table, conditions)):
            conditions[table] = condition
    deletions = [f"DELETE FROM {table.name} WHERE {condition}" for table, condition in conditions.items()]
    return [text(deletion) for deletion in reversed(deletions)]


def _condition(table: Table, conditions: dict[Table, str]) -> str | None:
    """Return the condition for rows that refer to an account, directly if possible, or None if none do."""
    account = table_of(Account)
    parents = {key.column.table: key.parent.name for key in table.foreign_keys}
    if account in parents:
        return f"{parents[account]} = ANY (:account_ids)"
    for parent, column in parents.items():
        if parent in conditions:
            return f"{column} IN (SELECT id FROM {parent.name} WHERE {conditions[parent]})"
    return None
