"""Sending e-mails: a sweep records alerts, and dispatches each e-mail that is due in a separate message.

Only the sweep publishes. The e-mails are in the database, so nothing is lost with a message, and the creation
of an account never waits for a mail server.
"""

import logging
from collections.abc import Callable

from celery import shared_task
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

from migration_service.config import SettingsError
from migration_service.models import AlertEmail, CustomerEmail
from migration_service.payment_vendors.breaker import CircuitBreaker
from migration_service.services.alerts.messages import deliver_alert, record_alerts
from migration_service.services.emails.customer_emails import deliver_email
from migration_service.services.emails.outbox import (
    Kind,
    MailServer,
    hold,
    hold_due,
    mail_server,
    name_message,
    take_due,
)
from migration_service.tasks.app import celery_app
from migration_service.tasks.names import SEND_ALERT_EMAIL, SEND_CUSTOMER_EMAIL, SWEEP_CUSTOMER_EMAILS
from migration_service.tasks.publishing import publish

logger = logging.getLogger(__name__)

#: The largest number of e-mails of a kind that one sweep dispatches.
LARGEST_SWEEP = 200

#: The kinds of messages, their names in the log, and the tasks that send them. The few alerts come first.
_KINDS: tuple[tuple[Kind, str, str], ...] = (
    (AlertEmail, "alert e-mails", SEND_ALERT_EMAIL),
    (CustomerEmail, "customer e-mails", SEND_CUSTOMER_EMAIL),
)

# A mail server that hangs must not block the workers, which also run maintenance.
breaker = CircuitBreaker(failures_to_open=2, open_seconds=30)


@shared_task(name=SEND_CUSTOMER_EMAIL, soft_time_limit=40, time_limit=50)
def send_customer_email(email_id: int) -> None:
    """Send one recorded message to a customer, if it is still pending."""
    _send(CustomerEmail, email_id, deliver_email)


@shared_task(name=SEND_ALERT_EMAIL, soft_time_limit=40, time_limit=50)
def send_alert_email(email_id: int) -> None:
    """Send one recorded message to a person who runs a migration, if it is still pending."""
    _send(AlertEmail, email_id, deliver_alert)


def _send(kind: Kind, email_id: int, deliver: Callable[[Session, int, MailServer], bool]) -> None:
    app = celery_app()
    sessions = app.resources.Session
    server = mail_server(app.settings)
    if not breaker.allows_call():
        with sessions.begin() as session:
            hold(session, kind, email_id)
        return
    with sessions.begin() as session:
        name_message(session, kind, email_id, server.sender)
    with sessions.begin() as session:
        answered = deliver(session, email_id, server)
    if answered:
        breaker.record_success()
    else:
        breaker.record_failure()


@shared_task(name=SWEEP_CUSTOMER_EMAILS, send_events=False)
def sweep_customer_emails() -> None:
    """Record alerts and dispatch e-mails that are due. Without a mail server, postpone them and log that."""
    app = celery_app()
    sessions = app.resources.Session
    if recipients := app.settings.alert_recipients:
        try:
            with sessions.begin() as session:
                record_alerts(session, recipients, app.settings.console_url)
        except DBAPIError as error:
            # Other messages are not affected. The next sweep tries again.
            logger.warning("Alerts were not recorded: %s", error)
    try:
        mail_server(app.settings)
    except SettingsError as error:
        with sessions.begin() as session:
            waiting = {name: hold_due(session, kind) for kind, name, _ in _KINDS}
        for name, number in waiting.items():
            if number:
                logger.error("%s %s wait, because none can be sent: %s", number, name, error)
        return
    for kind, _, task in _KINDS:
        with sessions.begin() as session:
            due = take_due(session, kind, LARGEST_SWEEP)
        for email_id in due:
            if not publish(app, task, email_id):
                return
