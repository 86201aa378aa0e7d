"""The outbox of messages to people: recorded first and sent later, at least once.

    PENDING -- send --> SENT       the mail server has accepted it
    PENDING -- send --> REFUSED    the mail server will never accept it for this address
    PENDING -- send --> PENDING    retried after a pause that doubles, up to an hour

No transaction is open while a message is sent: a claim names it and leases it, and what came of it is
recorded afterwards. If the process dies in between, the message is sent again with the same Message-ID. The
addresses of customers are read with the claim, and are not stored here. Nothing else that a client has
written is in a message.
"""

import hashlib
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from email.message import EmailMessage

from redis import Redis
from sqlalchemy import and_, exists, func, or_, select, text, update
from sqlalchemy.orm import Session

from migration_service import states
from migration_service.config import Settings, SettingsError
from migration_service.connections import log_if_unavailable
from migration_service.emails import messages
from migration_service.emails.smtp import (
    EmailDelayedError,
    EmailRefusedError,
    MailServerUnavailableError,
    SmtpSettings,
    send,
)
from migration_service.models import AlertEmail, CustomerEmail
from migration_service.payment_vendors.breaker import CircuitBreaker
from migration_service.services.deliveries.claims import LEASE_SECONDS, Claim, Outcome, Rooms, Sent
from migration_service.states import DeliveryFailure, EmailState

logger = logging.getLogger(__name__)

Kind = type[CustomerEmail] | type[AlertEmail]

#: The most messages of a kind that a process gives to the mail server at a time.
MOST = 4
#: The most messages that one address gets within an hour. Others wait.
MOST_AN_HOUR = 6
#: The delay of messages while no mail server is set.
WAIT = "30 seconds"
_HOUR = 3_600


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
    messages.sender_domain(settings.email_from)  # raises SettingsError if the sender is invalid
    return MailServer(SmtpSettings.from_url(settings.smtp_url), settings.email_from)


@dataclass(frozen=True, slots=True, kw_only=True)
class EmailClaim(Claim):
    """A message to send."""

    written_at: datetime
    recipient: str
    #: The new account number of a customer, or the subject of an alert, whose text follows.
    subject: str
    body: str = ""


class Emails:
    """The messages of a kind. The kinds share a circuit breaker, because they share the mail server."""

    def __init__(
        self, kind: Kind, server: MailServer, redis: Redis, breaker: CircuitBreaker | None = None
    ) -> None:
        self._kind = kind
        self._server = server
        self._redis = redis
        self._breaker = breaker or new_breaker()
        self._domain = messages.sender_domain(server.sender)

    def claim(self, session: Session, rooms: Rooms) -> Sequence[EmailClaim]:
        """Take the oldest messages that are due. Organisations take turns with those to their customers."""
        name = self._kind.__tablename__
        limit = min(rooms.free, rooms.of_destinations.get(name, 1))
        if limit <= 0 or not self._breaker.allows_call():
            return []
        session.execute(text("SET LOCAL synchronous_commit = off"))
        statement = CLAIM_CUSTOMERS if self._kind is CustomerEmail else CLAIM_ALERTS
        rows = session.execute(
            statement, {"limit": limit, "domain": self._domain, "lease": LEASE_SECONDS}
        ).mappings()
        return [EmailClaim(destination=name, widest=MOST, **row) for row in rows]

    def send(self, claim: EmailClaim) -> Outcome:
        """Give a message to the mail server, unless its recipient has got several within the hour."""
        counted = self._count(claim.recipient, 1)
        if counted > MOST_AN_HOUR:
            outcome = Outcome(failure=DeliveryFailure.STATUS, answer=_ENOUGH, retry_after=_HOUR)
        else:
            outcome = self._give(claim)
        if outcome.failure:
            self._count(claim.recipient, -1)
        return outcome

    def record(self, session: Session, sent: Sequence[Sent[EmailClaim]]) -> None:
        """Record what became of messages."""
        for it in sent:
            failure, answer = it.outcome.failure, it.outcome.answer
            if failure is DeliveryFailure.CONNECTION:
                self._breaker.record_failure()
            else:
                self._breaker.record_success()
            values: dict[str, object] = {"error": answer or None, "leased_until": None}
            if failure is None:
                values |= {"state": EmailState.SENT, "sent_at": func.clock_timestamp()}
            elif failure is DeliveryFailure.GONE:
                values["state"] = EmailState.REFUSED
            elif it.outcome.retry_after:
                values["next_try_at"] = _in(it.outcome.retry_after)
            else:
                values["failures"] = it.claim.attempts + 1
                values["next_try_at"] = _in(min(60 << min(it.claim.attempts, 6), _HOUR))
            if failure is not None:
                what = "was refused" if failure is DeliveryFailure.GONE else "waits"
                told = {"request_id": it.claim.request_id}
                logger.warning("Message %s %s: %s", it.claim.message_id, what, answer, extra=told)
            pending = (self._kind.id == it.claim.id, self._kind.state == EmailState.PENDING)
            session.execute(update(self._kind).where(*pending).values(**values))

    def _compose(self, claim: EmailClaim) -> EmailMessage:
        envelope = messages.Envelope(
            str(claim.message_id), self._server.sender, claim.recipient, claim.written_at
        )
        if self._kind is CustomerEmail:
            return messages.compose_account_created(envelope, claim.subject)
        return messages.compose_alert(envelope, claim.subject, claim.body)

    def _give(self, claim: EmailClaim) -> Outcome:
        try:
            send(self._compose(claim), self._server.smtp)
        except EmailRefusedError as error:
            return Outcome(failure=DeliveryFailure.GONE, answer=str(error))
        except MailServerUnavailableError as error:
            return Outcome(failure=DeliveryFailure.CONNECTION, answer=str(error))
        except EmailDelayedError as error:
            return Outcome(failure=DeliveryFailure.STATUS, answer=str(error))
        return Outcome()

    def _count(self, recipient: str, change: int) -> int:
        """Change the number of messages that an address has got within an hour, and return it."""
        key = "migration:emails:" + hashlib.sha256(recipient.strip().lower().encode()).hexdigest()
        number = 0
        with log_if_unavailable("messages to one address are not limited"), self._redis.pipeline() as pipe:
            pipe.set(key, 0, ex=_HOUR, nx=True)
            pipe.incrby(key, change)
            number = int(pipe.execute()[1])
        return number


def new_breaker() -> CircuitBreaker:
    """Return a circuit breaker that leaves a mail server alone that does not answer."""
    return CircuitBreaker(failures_to_open=2, open_seconds=30)


def has_work(session: Session) -> bool:
    """Return whether a message is due, or is with a process that has yet to record what came of it."""
    kept = [
        exists().where(condition)
        for kind in (AlertEmail, CustomerEmail)
        for condition in (
            and_(kind.state == EmailState.PENDING, kind.next_try_at <= func.now()),
            kind.leased_until > func.now(),
        )
    ]
    return bool(session.scalar(select(or_(*kept))))


def hold_due(session: Session, kind: Kind) -> int:
    """Postpone all due messages, because no mail server is set. Return their number."""
    # Locked messages are skipped, so that two sweeps at once never wait for each other.
    due = select(kind.id).where(kind.state == EmailState.PENDING, kind.next_try_at <= func.now())
    later = update(kind).where(kind.id.in_(due.with_for_update(skip_locked=True)))
    held = later.values(next_try_at=func.now() + text(f"interval '{WAIT}'")).returning(kind.id)
    return len(session.scalars(held).all())


def _in(seconds: float) -> object:
    return func.clock_timestamp() + text(f"interval '{seconds} seconds'")


_ENOUGH = "The recipient has got several messages within an hour."

_LEASE = """
    leased_until = clock_timestamp() + make_interval(secs => :lease),
    next_try_at = clock_timestamp() + make_interval(secs => :lease),
    message_id = coalesce(message_id, '<' || gen_random_uuid() || '@' || :domain || '>')"""

CLAIM_CUSTOMERS = text(f"""
    WITH due AS MATERIALIZED (
        SELECT email.*, row_number() OVER (PARTITION BY owner.id ORDER BY next_try_at) AS turn
        FROM (SELECT id FROM organisation) AS owner
        CROSS JOIN LATERAL (
            SELECT id AS email_id, next_try_at FROM customer_email
            WHERE organisation_id = owner.id AND state = '{EmailState.PENDING}'
              AND next_try_at <= clock_timestamp()
            ORDER BY next_try_at LIMIT :limit FOR UPDATE SKIP LOCKED) AS email
    ), claimed AS (
        UPDATE customer_email SET {_LEASE}
        WHERE id = ANY (ARRAY(SELECT email_id FROM due ORDER BY turn, next_try_at LIMIT :limit))
        RETURNING *
    )
    SELECT claimed.id, claimed.organisation_id, claimed.failures AS attempts, claimed.message_id,
           claimed.created_at AS written_at, customer.email AS recipient,
           account.service_account_number AS subject,
           (SELECT request_id FROM attempt
            WHERE attempt.account_import_process_id = account.account_import_process_id
              AND attempt.outcome = '{states.Outcome.SUCCEEDED}'
            ORDER BY attempt.finished_at DESC LIMIT 1) AS request_id
    FROM claimed JOIN customer ON customer.id = claimed.customer_pk
    JOIN account ON account.id = customer.account_pk
""")

CLAIM_ALERTS = text(f"""
    UPDATE alert_email SET {_LEASE}
    WHERE id = ANY (ARRAY(
        SELECT id FROM alert_email
        WHERE state = '{EmailState.PENDING}' AND next_try_at <= clock_timestamp()
        ORDER BY next_try_at LIMIT :limit FOR UPDATE SKIP LOCKED))
    RETURNING id, 0 AS organisation_id, failures AS attempts, message_id, created_at AS written_at, recipient,
              subject, body, split_part(event, '.', 1) || ' ' || split_part(event, ' ', 2) AS request_id
""")
