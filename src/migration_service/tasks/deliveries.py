"""The task that sends events to webhooks and messages to people, and the sweep that starts it.

The task sends for some seconds and then publishes its successor, so that its worker also does what Celery
wants between tasks. One process of a worker sends at a time, in many threads: a worker that has other queues,
too, keeps its other processes for them.
"""

import fcntl
import logging
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from celery import shared_task
from celery.signals import worker_process_shutdown
from redis import RedisError
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

from migration_service.config import SettingsError
from migration_service.connections import log_if_unavailable
from migration_service.models import AlertEmail, CustomerEmail
from migration_service.outgoing.guarded import GuardedClient
from migration_service.services.alerts.messages import record_alerts
from migration_service.services.deliveries.sender import Sender
from migration_service.services.emails.customer_emails import release_due
from migration_service.services.emails.outbox import Emails, has_work, hold_due, mail_server, new_breaker
from migration_service.services.webhooks.endpoints import address_rules, has_endpoints
from migration_service.services.webhooks.outbox import Webhooks
from migration_service.services.webhooks.secrets import Seal
from migration_service.services.webhooks.switching import switch_off_failing
from migration_service.tasks.app import MigrationCelery, celery_app
from migration_service.tasks.names import SEND_DELIVERIES
from migration_service.tasks.publishing import publish

logger = logging.getLogger(__name__)

#: Seconds for which a task sends.
SEND_SECONDS = 5.0
#: Seconds that a process which ends waits for messages on their way.
_FINISH_SECONDS = 3.0
# The key that says that a message is on its way, and the seconds after which it counts as lost.
_ANNOUNCED_KEY = "migration:deliveries-announced"
_TRUSTED_SECONDS = 60
#: The sender of this process.
_SENDERS: dict[MigrationCelery, Sender] = {}
# A file that the process that sends locks, until it ends or is killed. The processes of a worker have it from
# their main process.
with tempfile.TemporaryFile() as _file:
    _TURN = os.dup(_file.fileno())


@shared_task(name=SEND_DELIVERIES, send_events=False)
def send_deliveries() -> str:
    """Send what is due, for some seconds. The log shows how many attempts ended."""
    app = celery_app()
    with log_if_unavailable("deliveries are announced again when the message counts as lost"):
        app.resources.redis.delete(_ANNOUNCED_KEY)
    with app.resources.Session.begin() as session:
        is_needed = _has_work(session)
    if not is_needed:
        return "nothing to send"
    with _taking_turn() as is_taken:
        if not is_taken:
            return "another process sends"
        sender = _sender(app)
        ended = sender.run(SEND_SECONDS)
        sender.record_later()
    _announce(app)
    return f"{ended} attempts" if ended else "nothing sent"


@contextmanager
def _taking_turn() -> Iterator[bool]:
    """Yield whether no other process of this worker sends until the end of the block."""
    try:
        fcntl.lockf(_TURN, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        yield False
        return
    try:
        yield True
    finally:
        fcntl.lockf(_TURN, fcntl.LOCK_UN)


def sweep_deliveries() -> None:
    """Record alerts, switch off failing webhooks, release held e-mails, and let a worker send what is due.

    Without a mail server messages to people are postponed, and that is logged.
    """
    app = celery_app()
    sessions = app.resources.Session
    if recipients := app.settings.alert_recipients:
        try:
            with sessions.begin() as session:
                record_alerts(session, recipients, app.settings.console_url)
        except DBAPIError as error:
            # Other messages are not affected. The next sweep tries again.
            logger.warning("Alerts were not recorded: %s", error)
    with sessions.begin() as session:
        switch_off_failing(session)
        release_due(session)
        is_needed = _has_work(session)
    if not is_needed:
        return
    try:
        mail_server(app.settings)
    except SettingsError as error:
        with sessions.begin() as session:
            waiting = sum(hold_due(session, kind) for kind in (AlertEmail, CustomerEmail))
            is_needed = _has_work(session)
        if waiting:
            logger.error("%s e-mails wait, because none can be sent: %s", waiting, error)
    if is_needed:
        _announce(app)


def _has_work(session: Session) -> bool:
    return has_endpoints(session) or has_work(session)


def _sender(app: MigrationCelery) -> Sender:
    """Return the sender of this process. Its messages stay on their way between two tasks."""
    if app not in _SENDERS:
        settings, resources = app.settings, app.resources
        webhooks = Webhooks(GuardedClient(address_rules(settings)), Seal(settings.webhook_keys))
        emails: list[Emails] = []
        try:
            server, breaker = mail_server(settings), new_breaker()
            kinds = (AlertEmail, CustomerEmail)
            emails = [Emails(kind, server, resources.redis, breaker) for kind in kinds]
        except SettingsError:  # the sweep logs it
            pass
        _SENDERS[app] = Sender(resources.Session, [*emails, webhooks])
    return _SENDERS[app]


# Connected before a process begins: what connects later is not called when it ends (`worker_pool`).
@worker_process_shutdown.connect
def _finish(**_kwargs: object) -> None:
    for sender in _SENDERS.values():
        sender.finish(_FINISH_SECONDS)


def _announce(app: MigrationCelery) -> None:
    """Publish a message, unless one is on its way."""
    try:
        first = app.resources.redis.set(_ANNOUNCED_KEY, b"1", nx=True, ex=_TRUSTED_SECONDS)
    except RedisError:
        first = True
    if first and not publish(app, SEND_DELIVERIES, tells=False):
        with log_if_unavailable("deliveries are announced again when the message counts as lost"):
            app.resources.redis.delete(_ANNOUNCED_KEY)
