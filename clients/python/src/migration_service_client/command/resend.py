"""`migration-client resend`."""

import click

from migration_payloads.files.output import say
from migration_service_client import Client
from migration_service_client.command.errors import CannotRunError
from migration_service_client.command.online import Service, online
from migration_service_client.command.output import count


@click.command()
@click.argument("id")
@click.option("--webhook", metavar="ID", help="The webhook.  [default: the only one that you have]")
@online()
def resend(*, id: str, webhook: str | None, service: Service) -> None:
    """Let the service send an event again to a webhook: the delivery or the event with this ID."""
    with service.client() as client:
        webhook = webhook or _only_webhook(client)
        number = int(id) if id.isdecimal() else _find_delivery(client, webhook, id)
        client.redeliver_webhook(webhook, delivery_number=number)
    say(f"Delivery {number} of webhook {webhook} is sent again.")


def _only_webhook(client: Client) -> str:
    found = [it.webhook_id for it in client.list_webhooks()]
    if len(found) != 1:
        raise CannotRunError(
            f"You have {count(len(found), 'webhook')}. Name one with --webhook: {', '.join(found) or '-'}."
        )
    return found[0]


def _find_delivery(client: Client, webhook: str, event_id: str) -> int:
    for delivery in client.list_webhook_deliveries(webhook):
        if delivery.event_id == event_id:
            return delivery.delivery_number
    raise CannotRunError(f"Webhook {webhook} has no delivery of the event {event_id} in the last 30 days.")
