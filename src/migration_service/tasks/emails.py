"""Sends customer e-mails: a sweep dispatches those that are due, each in a message of its own.

Only the sweep publishes. The database has what is to be sent, so nothing is lost with a message, and the
creation of an account never waits for a mail server.
"""

import logging

from celery import shared_task

from migration_service.config import SettingsError
from migration_service.payment_vendors.breaker import CircuitBreaker
from migration_service.services.processing.customer_emails import (
    deliver_email,
    hold_due_emails,
    hold_email,
    mail_server,
    name_message,
    take_due_emails,
)
from migration_service.tasks.app import celery_app
from migration_service.tasks.names import SEND_CUSTOMER_EMAIL, SWEEP_CUSTOMER_EMAILS
from migration_service.tasks.publishing import publish

logger = logging.getLogger(__name__)

#: How many e-mails one sweep dispatches.
LARGEST_SWEEP = 200

# A mail server that hangs must not block the workers, which also do maintenance.
_breaker = CircuitBreaker(failures_to_open=2, open_seconds=30)


@shared_task(name=SEND_CUSTOMER_EMAIL, soft_time_limit=40, time_limit=50)
def send_customer_email(email_id: int) -> None:
    """Send one recorded message, if it is still to be sent."""
    app = celery_app()
    sessions = app.resources.Session
    server = mail_server(app.settings)
    if not _breaker.allows_call():
        with sessions.begin() as session:
            hold_email(session, email_id)
        return
    with sessions.begin() as session:
        name_message(session, email_id, server.sender)
    with sessions.begin() as session:
        answered = deliver_email(session, email_id, server)
    if answered:
        _breaker.record_success()
    else:
        _breaker.record_failure()


@shared_task(name=SWEEP_CUSTOMER_EMAILS, send_events=False)
def sweep_customer_emails() -> None:
    """Dispatch the e-mails that are due. Without a mail server they wait, and a message is logged."""
    app = celery_app()
    try:
        mail_server(app.settings)
    except SettingsError as error:
        with app.resources.Session.begin() as session:
            waiting = hold_due_emails(session)
        if waiting:
            logger.error("%s customer e-mails wait, because none can be sent: %s", waiting, error)
        return
    with app.resources.Session.begin() as session:
        due = take_due_emails(session, LARGEST_SWEEP)
    for email_id in due:
        if not publish(app, SEND_CUSTOMER_EMAIL, email_id):
            return
