"""Customer e-mails, which are recorded with the account and sent later from the outbox (section 1)."""

from collections.abc import Iterable
from email.message import EmailMessage
from typing import Any

from sqlalchemy import Row, select
from sqlalchemy.orm import Session

from migration_service.db.sql import OpenTransaction
from migration_service.emails.messages import compose_account_created
from migration_service.models import Account, Customer, CustomerEmail
from migration_service.services.emails.outbox import MailServer, deliver
from migration_service.states import EmailState

_RECORD = """
    INSERT INTO customer_email (customer_pk, organisation_id)
    SELECT customer.id, supplier.organisation_id
    FROM account
    JOIN customer ON customer.account_pk = account.id AND customer.email <> ''
    JOIN import_supplier supplier ON supplier.id = account.import_supplier_id
    WHERE supplier.sends_customer_emails
      AND account.account_import_process_id = ANY(%(account_import_process_ids)s::bigint[])
    ORDER BY customer.id
    RETURNING id
"""


def record_customer_emails(transaction: OpenTransaction, account_import_process_ids: Iterable[int]) -> None:
    """Record a message to each customer of these accounts with an address, in the caller's transaction.

    Record none if the supplier does not send e-mails. Call this once for each created account, never in a dry
    run.
    """
    transaction.execute(_RECORD, {"account_import_process_ids": list(account_import_process_ids)})


def deliver_email(session: Session, email_id: int, server: MailServer) -> bool:
    """Send a pending message, and record the result. Return False if the mail server is unavailable.

    Nothing happens if another worker is sending it, or if it is no longer pending.
    """
    row = session.execute(
        select(
            CustomerEmail.id,
            CustomerEmail.message_id,
            CustomerEmail.created_at,
            CustomerEmail.failures,
            Customer.email,
            Customer.given_name,
            Customer.family_name,
            Account.service_account_number,
        )
        .join(Customer, Customer.id == CustomerEmail.customer_pk)
        .join(Account, Account.id == Customer.account_pk)
        .where(CustomerEmail.id == email_id, CustomerEmail.state == EmailState.PENDING)
        .with_for_update(of=CustomerEmail, skip_locked=True)
    ).first()
    if row is None:
        return True
    return deliver(
        session, CustomerEmail, email_id, server, lambda: _compose(row, server.sender), failures=row.failures
    )


def _compose(row: Row[*tuple[Any, ...]], sender: str) -> EmailMessage:
    return compose_account_created(
        message_id=row.message_id,
        sender=sender,
        recipient=row.email,
        name=" ".join(filter(None, [row.given_name, row.family_name])),
        service_account_number=row.service_account_number,
        written_at=row.created_at,
    )
