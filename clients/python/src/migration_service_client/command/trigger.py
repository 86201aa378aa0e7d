"""`migration-client trigger`."""

import json
from datetime import UTC, datetime
from importlib.resources import files
from pathlib import Path
from uuid import uuid4

import click

from migration_payloads.files.output import say
from migration_service_client.command import forwarding
from migration_service_client.command.errors import CannotRunError
from migration_service_client.command.online import Service, online

_EXAMPLES = files(__package__).joinpath("event_examples.ndjson").read_text("utf-8")
#: An example of each type of event, as it is sent to webhooks. `make environment` writes them.
EVENT_EXAMPLES = {event["type"]: event for event in map(json.loads, _EXAMPLES.splitlines())}
#: What the service itself sends to try a webhook.
_TEST = "webhook.test"


@click.command()
@click.argument("type", type=click.Choice([*EVENT_EXAMPLES, _TEST]), metavar="TYPE")
@click.option("--forward-to", metavar="URL", help="The receiver that gets an example of the event, signed.")
@click.option("--webhook", metavar="ID", help=f"The webhook to which the service sends {_TEST}.")
@forwarding.secret_file_option
@online()
def trigger(
    *, type: str, forward_to: str | None, webhook: str | None, secret_file: Path | None, service: Service
) -> None:
    """Send an example event of this TYPE to a receiver, or let the service send webhook.test."""
    if (forward_to is None) == (webhook is None) or (type == _TEST) != (webhook is not None):
        raise click.UsageError(f"Expected --forward-to with the TYPE of an event, or {_TEST} with --webhook.")
    if webhook is not None:
        with service.client() as client:
            delivery = client.test_webhook(webhook)
        say(f"The service sends {_TEST} as event {delivery.event_id}.")
        return
    moment = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    event = EVENT_EXAMPLES[type] | {"id": str(uuid4()), "created_at": moment}
    try:
        status = forwarding.make_receiver(str(forward_to), secret_file).send(event)
    except forwarding.NotReceivedError as error:
        raise CannotRunError(f"{forward_to} did not receive {type}: {error}.") from error
    say(f"{forward_to} answered {status} to {type} {event['id']}.")
