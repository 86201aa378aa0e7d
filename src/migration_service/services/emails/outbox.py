"""The outbox: messages that are recorded first and sent later, at least once.

    PENDING -- deliver --> SENT       the mail server has accepted it
    PENDING -- deliver --> REFUSED    the mail server will never accept it for this address
    PENDING -- deliver --> PENDING    retried after a pause that doubles, up to an hour

The row is locked while its message is sent, and marked in the same transaction. If the process dies in
between, the message is sent again with the same Message-ID, which was recorded before the first attempt.
`kind` is the model of the rows: `CustomerEmail` or `AlertEmail`.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from email.message import EmailMessage

from sqlalchemy import func, select, text, update
from sqlalchemy.orm import Session

from migration_service.config import Settings, SettingsError
from migration_service.emails.messages import new_message_id
from migration_service.emails.smtp import (
    EmailDelayedError,
    EmailRefusedError,
    MailServerUnavailableError,
    SmtpSettings,
    send,
)
from migration_service.models import AlertEmail, CustomerEmail
from migration_service.states import EmailState

logger = logging.getLogger(__name__)

Kind = type[CustomerEmail] | type[AlertEmail]

#: The time after which an unsent message is dispatched to the workers again.
HAND_OVER_AGAIN = "2 minutes"
#: The delay of messages while no mail server is set, or it is unavailable.
WAIT = "30 seconds"


@dataclass(frozen=True, slots=True)
class MailServer:
    """The mail server, and the sender of messages (`Name <address>`)."""

    smtp: SmtpSettings
    sender: str


def mail_server(settings: Settings) -> MailServer:
    """Return the mail server from the settings. Raise SettingsError if a setting is missing or invalid."""
    for value, variable in (
        (settings.smtp_url, "MIGRATION_SERVICE_SMTP_URL"),
        (settings.email_from, "MIGRATION_SERVICE_EMAIL_FROM"),
    ):
        if not value:
            raise SettingsError(f"{variable} is not set.")
    new_message_id(settings.email_from)  # raises SettingsError if the sender is invalid
    return MailServer(SmtpSettings.from_url(settings.smtp_url), settings.email_from)


def take_due(session: Session, kind: Kind, limit: int) -> Sequence[int]:
    """Return the messages to dispatch to the workers now. They are not returned again for some time.

    The oldest come first. Organisations take turns with those to their customers.
    """
    if kind is CustomerEmail:
        return session.scalars(_TAKE_BY_TURNS, {"limit": limit}).all()
    return _put_off(session, kind, HAND_OVER_AGAIN, limit)


def hold_due(session: Session, kind: Kind) -> int:
    """Postpone all due messages, because no mail server is set. Return their number."""
    return len(_put_off(session, kind, WAIT, None))


def hold(session: Session, kind: Kind, email_id: int) -> None:
    """Postpone one message, because the mail server is unavailable."""
    session.execute(
        update(kind)
        .where(kind.id == email_id, kind.state == EmailState.PENDING)
        .values(next_try_at=func.now() + text(f"interval '{WAIT}'"))
    )


def name_message(session: Session, kind: Kind, email_id: int, sender: str) -> None:
    """Record the Message-ID. Commit it before `deliver`, so that a retry uses the same one."""
    session.execute(
        update(kind)
        .where(kind.id == email_id, kind.message_id.is_(None))
        .values(message_id=new_message_id(sender))
    )


def deliver(
    session: Session,
    kind: Kind,
    email_id: int,
    server: MailServer,
    compose: Callable[[], EmailMessage],
    *,
    failures: int,
) -> bool:
    """Send a message whose row is locked, and record the result. Return False if the server is unavailable.

    `compose` may raise EmailRefusedError. `failures` is the number of failed attempts so far.
    """
    try:
        send(compose(), server.smtp)
    except EmailRefusedError as error:
        logger.warning("Message %s of %s was refused: %s", email_id, kind.__tablename__, error)
        _mark(session, kind, email_id, state=EmailState.REFUSED, error=str(error))
    except EmailDelayedError as error:
        logger.warning("Message %s of %s waits: %s", email_id, kind.__tablename__, error)
        pause = text(f"interval '{_pause_seconds(failures)} seconds'")
        next_try_at = func.clock_timestamp() + pause
        _mark(session, kind, email_id, failures=failures + 1, error=str(error), next_try_at=next_try_at)
        return not isinstance(error, MailServerUnavailableError)
    else:
        _mark(session, kind, email_id, state=EmailState.SENT, sent_at=func.clock_timestamp(), error=None)
    return True


def _put_off(session: Session, kind: Kind, interval: str, limit: int | None) -> Sequence[int]:
    due = (
        select(kind.id)
        .where(kind.state == EmailState.PENDING, kind.next_try_at <= func.now())
        .order_by(kind.next_try_at)
        .limit(limit)
        .with_for_update(skip_locked=True)
        .cte()  # runs once, whereas a subquery may run for each row and exceed the limit
    )
    return session.scalars(
        update(kind)
        .where(kind.id.in_(select(due.c.id)))
        .values(next_try_at=func.now() + text(f"interval '{interval}'"))
        .returning(kind.id)
    ).all()


def _mark(session: Session, kind: Kind, email_id: int, **values: object) -> None:
    session.execute(update(kind).where(kind.id == email_id).values(**values))


def _pause_seconds(failures: int) -> int:
    return min(60 << min(failures, 6), 3600)


# Those that an older version recorded take turns as one more organisation.
_TAKE_BY_TURNS = text(f"""
    WITH next AS MATERIALIZED (
        SELECT email.*, row_number() OVER (PARTITION BY owner.id ORDER BY next_try_at) AS turn
        FROM (SELECT id FROM organisation UNION ALL SELECT 0) AS owner
        CROSS JOIN LATERAL (
            SELECT id AS email_id, next_try_at FROM customer_email
            WHERE organisation_id = owner.id AND state = '{EmailState.PENDING}' AND next_try_at <= now()
            ORDER BY next_try_at LIMIT :limit FOR UPDATE SKIP LOCKED) AS email)
    UPDATE customer_email SET next_try_at = now() + interval '{HAND_OVER_AGAIN}'
    WHERE id IN (SELECT email_id FROM next ORDER BY turn, next_try_at LIMIT :limit)
    RETURNING id
""")
