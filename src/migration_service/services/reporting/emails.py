"""Counts and lists of customer e-mails for operators."""

from collections.abc import Collection, Sequence
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from migration_service.db.base import one_of
from migration_service.models import Account, Customer, CustomerEmail, ImportSupplier
from migration_service.states import EmailState


def count_emails(session: Session, *, import_supplier_ids: Collection[int] | None) -> dict[str, int]:
    """Return the number of e-mails in each state, of one supplier or of all if None."""
    statement = select(CustomerEmail.state, func.count()).group_by(CustomerEmail.state)
    if import_supplier_ids is not None:
        statement = (
            statement.select_from(CustomerEmail)
            .join(Customer, Customer.id == CustomerEmail.customer_pk)
            .join(Account, Account.id == Customer.account_pk)
            .where(one_of(Account.import_supplier_id.expression, import_supplier_ids))
        )
    counts = dict.fromkeys(map(str, EmailState), 0)
    for state, number in session.execute(statement):
        counts[state] = number
    return counts


def list_emails(
    session: Session,
    *,
    import_supplier_ids: Collection[int] | None,
    state: EmailState | None,
    before: int | None = None,
    limit: int = 50,
) -> Sequence[Any]:
    """Return the e-mails older than the one with the id `before`, newest first, without addresses."""
    statement = (
        select(
            CustomerEmail.id,
            ImportSupplier.code.label("import_supplier"),
            Account.external_account_number,
            CustomerEmail.state,
            CustomerEmail.created_at,
            CustomerEmail.next_try_at,
            CustomerEmail.failures,
            CustomerEmail.error,
            CustomerEmail.sent_at,
        )
        .join(Customer, Customer.id == CustomerEmail.customer_pk)
        .join(Account, Account.id == Customer.account_pk)
        .join(ImportSupplier, ImportSupplier.id == Account.import_supplier_id)
        .order_by(CustomerEmail.id.desc())
        .limit(limit)
    )
    if import_supplier_ids is not None:
        statement = statement.where(one_of(ImportSupplier.id.expression, import_supplier_ids))
    if state is not None:
        statement = statement.where(CustomerEmail.state == state)
    if before is not None:
        statement = statement.where(CustomerEmail.id < before)
    return session.execute(statement).all()
