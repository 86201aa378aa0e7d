"""`migration-service webhooks`."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, TypeVar

import click

from migration_service.cli.moments import Moment
from migration_service.cli.output import (
    count,
    json_option,
    show_done,
    show_list,
    show_record,
    together,
)
from migration_service.cli.session import open_session, read_settings
from migration_service.models import WebhookDelivery, WebhookEndpoint
from migration_service.outgoing.rules import show_url
from migration_service.schemas.events import EventType
from migration_service.schemas.webhooks import (
    LONGEST_OVERLAP,
    USUAL_OVERLAP,
    OperatorsBodySchema,
    OperatorsChangeSchema,
    WebhookAnswerSchema,
    WebhookDeliveryAnswerSchema,
)
from migration_service.services.setup.organisations import get_organisation
from migration_service.services.webhooks.deliveries import (
    get_delivery,
    list_deliveries,
    redeliver,
    redeliver_since,
    report_delivery,
    send_test,
)
from migration_service.services.webhooks.endpoints import (
    PLAIN,
    change_endpoint,
    create_endpoint,
    get_endpoint,
    list_endpoints,
    remove_endpoint,
    report_endpoint,
    rotate_secret,
)
from migration_service.services.webhooks.setup import address_rules, read_values, seal
from migration_service.states import DeliveryState

_Command = TypeVar("_Command", bound=Callable[..., Any])
_SINCE = Moment(["%Y-%m-%d", "%Y-%m-%dT%H:%M:%SZ", "%Y-%m-%d %H:%M:%S"], "2026-03-01T08:00:00Z")


def _value_options(*, url: bool) -> Callable[[_Command], _Command]:
    """Return the options for the values of a webhook, which are None if they are absent."""
    fields = OperatorsChangeSchema().fields
    plain = [
        click.option(f"--{name}", metavar="TEXT", help=fields[name].metadata["meaning"])
        for name in sorted(PLAIN)
        if url or name != "url"
    ]
    return together(
        *plain,
        click.option(
            "--type",
            "types",
            multiple=True,
            type=click.Choice([it.value for it in EventType]),
            help="A type of events that is sent. Can be repeated.  [default: all]",
        ),
        click.option(
            "--supplier",
            "suppliers",
            multiple=True,
            metavar="CODE",
            help="An import supplier whose events are sent. Can be repeated.  [default: all]",
        ),
    )


@click.group()
def webhooks() -> None:
    """Manage webhooks, which send events to the suppliers' servers."""


@webhooks.command()
@click.argument("url")
@click.option("--organisation", required=True, metavar="NAME", help="The organisation whose events are sent.")
@_value_options(url=False)
@json_option
def create(*, url: str, organisation: str, as_json: bool, **given: Any) -> None:
    """Create a webhook that posts events to URL, and print its secret, which is not shown again."""
    settings = read_settings()
    with open_session(settings) as session:
        owner = get_organisation(session, organisation).id
        values = read_values(OperatorsBodySchema(), {"url": url, **_values(**given)})
        endpoint, secret = create_endpoint(session, owner, address_rules(settings), seal(settings), values)
        record = _record(report_endpoint(session, endpoint)) | {"secret": secret}
    show_done(record, as_json, secret)
    if not as_json:
        click.echo(f"Webhook {record['webhook_id']} was created. The secret is not shown again.", err=True)


@webhooks.command("list")
@json_option
def list_all(as_json: bool) -> None:
    """List all webhooks."""
    with open_session(read_settings()) as session:
        found = list_endpoints(session)
    names = ("webhook_id", "organisation", "url", "description", "enabled", "failing_since")
    whole = [_record(it) for it in found]
    records = whole if as_json else [{name: it[name] for name in names} for it in whole]
    show_list(records, as_json, nothing="There are no webhooks yet.")


@webhooks.command()
@click.argument("webhook_id")
@json_option
def show(webhook_id: str, as_json: bool) -> None:
    """Show the webhook WEBHOOK_ID."""
    with open_session(read_settings()) as session:
        report = report_endpoint(session, get_endpoint(session, webhook_id, organisation_id=None))
    show_record(_record(report), as_json)


@webhooks.command()
@click.argument("webhook_id")
@_value_options(url=True)
@click.option("--on/--off", "enabled", default=None, help="Switch it on or off.")
@json_option
def change(*, webhook_id: str, as_json: bool, enabled: bool | None, **given: Any) -> None:
    """Change the webhook WEBHOOK_ID. What is not given stays as it is."""
    settings = read_settings()
    values = _values(**given) | ({} if enabled is None else {"enabled": enabled})
    with open_session(settings) as session:
        endpoint = get_endpoint(session, webhook_id, organisation_id=None, lock=True)
        values = read_values(OperatorsChangeSchema(), values)
        change_endpoint(session, endpoint, address_rules(settings), values)
        record = _record(report_endpoint(session, endpoint))
    show_done(record, as_json, f"Webhook {webhook_id} was changed.")


@webhooks.command()
@click.argument("webhook_id")
@json_option
def remove(webhook_id: str, as_json: bool) -> None:
    """Remove the webhook WEBHOOK_ID for ever."""
    with open_session(read_settings()) as session:
        remove_endpoint(session, get_endpoint(session, webhook_id, organisation_id=None, lock=True))
    show_done({"webhook_id": webhook_id}, as_json, f"Webhook {webhook_id} was removed.")


@webhooks.command("rotate-secret")
@click.argument("webhook_id")
@click.option(
    "--overlap-hours",
    type=click.IntRange(0, LONGEST_OVERLAP),
    default=USUAL_OVERLAP,
    show_default=True,
    help="For how long messages are signed with the old secret, too.",
)
@json_option
def rotate(webhook_id: str, overlap_hours: int, as_json: bool) -> None:
    """Give the webhook WEBHOOK_ID a new secret, and print it."""
    settings = read_settings()
    with open_session(settings) as session:
        endpoint = get_endpoint(session, webhook_id, organisation_id=None, lock=True)
        secret = rotate_secret(session, endpoint, seal(settings), overlap_hours=overlap_hours)
    show_done({"webhook_id": webhook_id, "secret": secret}, as_json, secret)


@webhooks.command("test")
@click.argument("webhook_id")
@json_option
def send_test_event(webhook_id: str, as_json: bool) -> None:
    """Send a test event to the webhook WEBHOOK_ID, even if it is switched off."""
    with open_session(read_settings()) as session:
        delivery = send_test(session, get_endpoint(session, webhook_id, organisation_id=None))
        record = {"delivery_number": delivery.id}
    told = f"The event is sent: webhooks deliveries {webhook_id} --delivery {record['delivery_number']}"
    show_done(record, as_json, told)


@webhooks.command()
@click.argument("webhook_id")
@click.option(
    "--state",
    type=click.Choice([it.value for it in DeliveryState], case_sensitive=False),
    help="Only deliveries in this state.",
)
@click.option("--delivery", metavar="NUMBER", help="Only this delivery, with all its attempts.")
@click.option("--limit", type=click.IntRange(1), default=50, show_default=True, help="How many at most.")
@json_option
def deliveries(webhook_id: str, state: str | None, delivery: str | None, limit: int, as_json: bool) -> None:
    """List the deliveries of the webhook WEBHOOK_ID, newest first."""
    with open_session(read_settings()) as session:
        endpoint = get_endpoint(session, webhook_id, organisation_id=None)
        if delivery is not None:
            found = report_delivery(session, get_delivery(session, endpoint, delivery))
            records = WebhookDeliveryAnswerSchema().dump(found)["attempt_list"]
            show_list(records, as_json, nothing="It has not been sent yet.")
            return
        wanted = DeliveryState(state) if state else None
        records = [_flat(it) for it in list_deliveries(session, endpoint, state=wanted, limit=limit)]
    show_list(records, as_json, nothing="There are no deliveries.")


@webhooks.command("redeliver")
@click.argument("webhook_id")
@click.option("--delivery", metavar="NUMBER", help="The event of this delivery.")
@click.option("--since", type=_SINCE, metavar="TIME", help="Instead: events since then, in UTC.")
@click.option("--only-failed", is_flag=True, help="With --since: only events whose deliveries have failed.")
@json_option
def send_again(
    webhook_id: str, delivery: str | None, since: datetime | None, only_failed: bool, as_json: bool
) -> None:
    """Send events to the webhook WEBHOOK_ID again, even if it is switched off."""
    if (delivery is None) == (since is None):
        raise click.UsageError("Expected exactly one of --delivery and --since.")
    with open_session(read_settings()) as session:
        endpoint = get_endpoint(session, webhook_id, organisation_id=None)
        events = 1
        if since is not None:
            moment = since.replace(tzinfo=UTC)
            events = redeliver_since(session, endpoint, moment, only_failed=only_failed)
        else:
            redeliver(session, endpoint, get_delivery(session, endpoint, delivery or ""))
    show_done({"events": events}, as_json, f"{count(events, 'event')} will be sent again.")


def _values(
    *,
    types: tuple[str, ...],
    suppliers: tuple[str, ...],
    **others: Any,
) -> dict[str, Any]:
    values = {
        "event_types": list(types) or None,
        "import_suppliers": list(suppliers) or None,
        **others,
    }
    return {name: value for name, value in values.items() if value is not None}


def _record(webhook: WebhookEndpoint) -> dict[str, Any]:
    shown: dict[str, Any] = WebhookAnswerSchema().dump(webhook)
    return shown | {"organisation": webhook.organisation, "url": show_url(webhook.url)}


def _flat(delivery: WebhookDelivery) -> dict[str, Any]:
    last = delivery.attempt_list[-1] if delivery.attempt_list else None
    names = ("event_id", "event_type", "state", "attempts", "created_at", "next_attempt_at")
    shown = WebhookDeliveryAnswerSchema().dump(delivery)
    told = {"status": last and last.status, "error": last and last.error}
    return {"delivery_number": delivery.id} | {name: shown[name] for name in names} | told
