"""Customer e-mails: recorded with the account, sent later, each at least once (section 1).

    PENDING -- deliver_email --> SENT       the mail server has taken it
    PENDING -- deliver_email --> REFUSED    it will never take it for this address
    PENDING -- deliver_email --> PENDING    not now: after a pause that doubles, up to an hour

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
from migration_service.db.statements import Transaction
from migration_service.emails.messages import compose_account_created, new_message_id
from migration_service.emails.smtp import (
    EmailDelayedError,
    EmailRefusedError,
    MailServerAwayError,
    SmtpSettings,
    send,
)
from migration_service.models import Account, Customer, CustomerEmail
from migration_service.states import EmailState

logger = logging.getLogger(__name__)

#: A message that was handed to the workers and is still to be sent after this long is handed over again.
HAND_OVER_AGAIN = "2 minutes"
#: Where no mail server is set, or it is away, messages wait so long before somebody looks again.
WAIT = "30 seconds"


@dataclass(frozen=True, slots=True)
class MailServer:
    """How messages leave: through which server, and from whom (`Name <address>`)."""

    smtp: SmtpSettings
    sender: str


def mail_server(settings: Settings) -> MailServer:
    """The mail server of the settings. Raises SettingsError that says what is missing or wrong."""
    for value, variable in (
        (settings.smtp_url, "MIGRATION_SERVICE_SMTP_URL"),
        (settings.email_from, "MIGRATION_SERVICE_EMAIL_FROM"),
    ):
        if not value:
            raise SettingsError(f"{variable} is not set.")
    new_message_id(settings.email_from)  # refuses a sender that cannot be
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


def record_customer_emails(transaction: Transaction, account_import_process_ids: Sequence[int]) -> None:
    """Record a message for each customer with an address of these accounts, in the caller's transaction.

    Only where the supplier's flag is on. Called once an account is created for good, never in a dry run.
    """
    transaction.execute(_RECORD, {"account_import_process_ids": list(account_import_process_ids)})


def take_due_emails(session: Session, limit: int) -> Sequence[int]:
    """Messages to hand to the workers now; each comes again only after a while."""
    return _put_off(session, HAND_OVER_AGAIN, limit)


def hold_due_emails(session: Session) -> int:
    """Let all due messages wait, as there is no mail server; how many there were."""
    return len(_put_off(session, WAIT, None))


def hold_email(session: Session, email_id: int) -> None:
    """Let one message wait, as the mail server is away."""
    session.execute(
        update(CustomerEmail)
        .where(CustomerEmail.id == email_id, CustomerEmail.state == EmailState.PENDING)
        .values(next_try_at=func.now() + text(f"interval '{WAIT}'"))
    )


def name_message(session: Session, email_id: int, sender: str) -> None:
    """Record the Message-ID before the first try: committed before `deliver_email`, a repeat has the same."""
    session.execute(
        update(CustomerEmail)
        .where(CustomerEmail.id == email_id, CustomerEmail.message_id.is_(None))
        .values(message_id=new_message_id(sender))
    )


def deliver_email(session: Session, email_id: int, server: MailServer) -> bool:
    """Send a pending message and mark what became of it; false where the mail server is away.

    Nothing happens where another worker is on it, or it is done.
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
        return not isinstance(error, MailServerAwayError)
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
    )
    return session.scalars(
        update(CustomerEmail)
        .where(CustomerEmail.id.in_(due))
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
