"""Historical statements that are added to accounts, each at the next place of its account."""

from datetime import date
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from migration_service.models import Statement
from migration_service.services.accounts.added_data import Addition, OpenAccount, find_accounts
from migration_service.services.accounts.statements import AddedStatements, add_statements_to_accounts
from migration_service.services.setup.suppliers import KnownSupplier
from support.imported_account import ImportedAccount


def _statement(statement_id: str) -> dict[str, Any]:
    return {
        "statement_id": statement_id,
        "number": f"N-{statement_id}",
        "bill_period_from_date": date(2026, 8, 1),
        "bill_period_to_date": date(2026, 8, 31),
        "issued_date": date(2026, 9, 1),
        "gross_amount": 4_928,
    }


def test_statements_are_counted_from_zero_on_each_account(
    session: Session, another: ImportedAccount, known: KnownSupplier, opened: OpenAccount
) -> None:
    other = find_accounts(session, known, [another.number])[another.number]
    for account, *ids in ((opened, "A", "B"), (opened, "A", "C"), (other, "A")):
        addition = Addition(account, {"statements": [_statement(it) for it in ids]})
        (result,) = add_statements_to_accounts(session, [addition])
        assert isinstance(result, AddedStatements)
        assert result.is_new == ([False, True] if "C" in ids else [True] * len(ids))
    added = select(Statement.account_pk, Statement.statement_id, Statement.position).order_by(Statement.id)
    assert [tuple(row) for row in session.execute(added)] == [
        (opened.id, "A", 0),
        (opened.id, "B", 1),
        (opened.id, "C", 2),
        (other.id, "A", 0),
    ]
