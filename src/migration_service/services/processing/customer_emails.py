"""Customer e-mails: recorded with the account, sent later, each at least once (section 1).

    PENDING -- deliver_email --> SENT       the mail server has accepted it
    PENDING -- deliver_email --> REFUSED    the mail server will never accept it for this address
    PENDING -- deliver_email --> PENDING    retried after a pause that doubles, up to an hour

The row is locked while its message is sent, and marked in the same transaction. If the process dies in
between, the message is sent again with the Message-ID that was recorded before the first try.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Row, func, select, text, update
from sqlalchemy.orm import Session

from migration_service.config import Settings, SettingsError
from migration_service.db.statements import OpenTransaction
from migration_service.emails.messages import compose_account_created, new_message_id
from migration_service.emails.smtp import (
    EmailDelayedError,
    EmailRefusedError,
    MailServerUnavailableError,
    SmtpSettings,
    send,
)
from migration_service.models import Account, Customer, CustomerEmail
from migration_service.states import EmailState

logger = logging.getLogger(__name__)

#: A message that was dispatched to the workers and has not been sent after this time is dispatched again.
HAND_OVER_AGAIN = "2 minutes"
#: If no mail server is set, or it is unavailable, messages wait this long before the next try.
WAIT = "30 seconds"


@dataclass(frozen=True, slots=True)
class MailServer:
    """The server that sends messages, and their sender (`Name <address>`)."""

    smtp: SmtpSettings
    sender: str


def mail_server(settings: Settings) -> MailServer:
    """Return the mail server of the settings. Raise SettingsError if a setting is missing or invalid."""
    for value, variable in (
        (settings.smtp_url, "MIGRATION_SERVICE_SMTP_URL"),
        (settings.email_from, "MIGRATION_SERVICE_EMAIL_FROM"),
    ):
        if not value:
            raise SettingsError(f"{variable} is not set.")
    new_message_id(settings.email_from)  # raises SettingsError if the sender is invalid
    return MailServer(SmtpSettings.from_url(settings.smtp_url), settings.email_from)


_RECORD = """
    INSERT INTO customer_email (customer_pk)
    SELECT customer.id
    FROM account
    JOIN customer ON customer.account_pk = account.id AND customer.email <> ''
    JOIN import_supplier supplier ON supplier.id = account.import_supplier_id
    WHERE supplier.sends_customer_emails
      AND account.account_import_process_id = ANY(%(account_import_process_ids)s::bigint[])
    ORDER BY customer.id
    RETURNING id
"""


def record_customer_emails(transaction: OpenTransaction, account_import_process_ids: Sequence[int]) -> None:
    """Record a message for each customer of these accounts who has an address, in the caller's transaction.

    Record none if the supplier does not send e-mails. Call this once for a created account, never in a dry
    run.
    """
    transaction.execute(_RECORD, {"account_import_process_ids": list(account_import_process_ids)})


def take_due_emails(session: Session, limit: int) -> Sequence[int]:
    """Return the messages to dispatch to the workers now. Each is dispatched again only after a while."""
    return _put_off(session, HAND_OVER_AGAIN, limit)


def hold_due_emails(session: Session) -> int:
    """Postpone all due messages, because no mail server is set. Return how many there were."""
    return len(_put_off(session, WAIT, None))


def hold_email(session: Session, email_id: int) -> None:
    """Postpone one message, because the mail server is unavailable."""
    session.execute(
        update(CustomerEmail)
        .where(CustomerEmail.id == email_id, CustomerEmail.state == EmailState.PENDING)
        .values(next_try_at=func.now() + text(f"interval '{WAIT}'"))
    )


def name_message(session: Session, email_id: int, sender: str) -> None:
    """Record the Message-ID. Commit it before `deliver_email`, so that a retry has the same one."""
    session.execute(
        update(CustomerEmail)
        .where(CustomerEmail.id == email_id, CustomerEmail.message_id.is_(None))
        .values(message_id=new_message_id(sender))
    )


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
    try:
        _send(row, server)
    except EmailRefusedError as error:
        logger.warning("Customer e-mail %s was refused: %s", email_id, error)
        _mark(session, email_id, state=EmailState.REFUSED, error=str(error))
    except EmailDelayedError as error:
        logger.warning("Customer e-mail %s waits: %s", email_id, error)
        pause = text(f"interval '{_pause_seconds(row.failures)} seconds'")
        _mark(
            session,
            email_id,
            failures=row.failures + 1,
            error=str(error),
            next_try_at=func.clock_timestamp() + pause,
        )
        return not isinstance(error, MailServerUnavailableError)
    else:
        _mark(session, email_id, state=EmailState.SENT, sent_at=func.clock_timestamp(), error=None)
    return True


def _put_off(session: Session, interval: str, limit: int | None) -> Sequence[int]:
    due = (
        select(CustomerEmail.id)
        .where(CustomerEmail.state == EmailState.PENDING, CustomerEmail.next_try_at <= func.now())
        .order_by(CustomerEmail.next_try_at)
        .limit(limit)
        .with_for_update(skip_locked=True)
        .cte()  # runs once: a subquery may run again for each row, and then takes more than the limit
    )
    return session.scalars(
        update(CustomerEmail)
        .where(CustomerEmail.id.in_(select(due.c.id)))
        .values(next_try_at=func.now() + text(f"interval '{interval}'"))
        .returning(CustomerEmail.id)
    ).all()


def _send(row: Row[*tuple[Any, ...]], server: MailServer) -> None:
    message = compose_account_created(
        message_id=row.message_id,
        sender=server.sender,
        recipient=row.email,
        name=" ".join(filter(None, [row.given_name, row.family_name])),
        service_account_number=row.service_account_number,
        written_at=row.created_at,
    )
    send(message, server.smtp)


def _mark(session: Session, email_id: int, **values: object) -> None:
    session.execute(update(CustomerEmail).where(CustomerEmail.id == email_id).values(**values))


def _pause_seconds(failures: int) -> int:
    return min(60 << min(failures, 6), 3600)
