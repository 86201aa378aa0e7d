"""The task that sends webhooks, and the sweep that starts it.

The task sends for some seconds and then publishes its successor, so that its worker also does what Celery
wants between tasks. One message is on its way at a time, and each process that takes one sends beside the
others.
"""

from celery import shared_task
from celery.signals import worker_process_shutdown
from redis import RedisError

from migration_service.connections import log_if_unavailable
from migration_service.destinations.http import HttpDestination
from migration_service.destinations.protocol import Destination
from migration_service.destinations.rabbitmq import RabbitDestination
from migration_service.outgoing.guarded import GuardedClient, trusted_certificates
from migration_service.services.webhooks.endpoints import has_endpoints
from migration_service.services.webhooks.sender import Sender
from migration_service.services.webhooks.setup import address_rules, seal
from migration_service.services.webhooks.switching import switch_off_failing
from migration_service.states import EndpointKind
from migration_service.tasks.app import MigrationCelery, celery_app
from migration_service.tasks.names import SEND_WEBHOOKS, SWEEP_WEBHOOKS
from migration_service.tasks.publishing import publish

#: Seconds for which a task sends.
SEND_SECONDS = 5.0
#: Seconds that a process which ends waits for messages on their way.
_FINISH_SECONDS = 3.0
# The key that says that a message is on its way, and the seconds after which it counts as lost.
_ANNOUNCED_KEY = "migration:webhooks-announced"
_TRUSTED_SECONDS = 60
#: The sender of this process.
_SENDERS: dict[MigrationCelery, Sender] = {}


@shared_task(name=SEND_WEBHOOKS, send_events=False)
def send_webhooks() -> str:
    """Send the deliveries that are due, for some seconds. The log shows how many attempts ended."""
    app = celery_app()
    resources = app.resources
    with log_if_unavailable("webhooks are announced again when the message counts as lost"):
        resources.redis.delete(_ANNOUNCED_KEY)
    with resources.Session.begin() as session:
        if not has_endpoints(session):
            return "no webhooks"
    ended = _sender(app).run(SEND_SECONDS)
    _announce(app)
    return f"{ended} attempts"


@shared_task(name=SWEEP_WEBHOOKS, send_events=False)
def sweep_webhooks() -> None:
    """Switch off webhooks that have failed for days, and let a worker send those that are due."""
    app = celery_app()
    with app.resources.Session.begin() as session:
        switch_off_failing(session)
        wanted = has_endpoints(session)
    if wanted:
        _announce(app)


def _sender(app: MigrationCelery) -> Sender:
    """Return the sender of this process. Its messages stay on their way between two tasks."""
    if app not in _SENDERS:
        rules = address_rules(app.settings)
        destinations: dict[EndpointKind, Destination] = {
            EndpointKind.URL: HttpDestination(GuardedClient(rules)),
            EndpointKind.QUEUE: RabbitDestination(rules, trusted_certificates),
        }
        _SENDERS[app] = Sender(app.resources.Session, destinations, seal(app.settings))
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
    if first and not publish(app, SEND_WEBHOOKS, tells=False):
        with log_if_unavailable("webhooks are announced again when the message counts as lost"):
            app.resources.redis.delete(_ANNOUNCED_KEY)
