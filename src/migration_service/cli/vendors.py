"""`migration-service vendors`."""

from decimal import Decimal

import click

from migration_service.cli.output import Record, json_option, show_done, show_list
from migration_service.cli.session import open_session, read_settings
from migration_service.models import PaymentVendor
from migration_service.payment_vendors.protocol import VendorKind
from migration_service.services.setup.vendors import (
    create_payment_vendor,
    list_payment_vendors,
    set_vendor_rate,
)


@click.group()
def vendors() -> None:
    """Manage payment vendors, which verify payment instructions."""


@vendors.command()
@click.argument("name")
@click.option(
    "--kind",
    required=True,
    type=click.Choice([kind.value for kind in VendorKind]),
    help="The interface of the vendor: the plain JSON one of the documentation, or Stripe's.",
)
@click.option("--url", required=True, help="The vendor's address, for example https://gateway.example/v2.")
@click.option(
    "--secret-env",
    metavar="VAR",
    help="Environment variable of web processes and workers with the vendor's secret, which is not stored.",
)
@click.option(
    "--organisation", metavar="NAME", help="Whose vendor it is; without it, all organisations share it."
)
@json_option
def create(
    *, name: str, kind: str, url: str, secret_env: str | None, organisation: str | None, as_json: bool
) -> None:
    """Create the payment vendor NAME."""
    with open_session(read_settings()) as session:
        vendor = create_payment_vendor(
            session,
            name,
            kind=VendorKind(kind),
            url=url,
            secret_env=secret_env,
            organisation_name=organisation,
        )
        record = _record(vendor, organisation)
    show_done(record, as_json, f"Payment vendor {name!r} was created.")


@vendors.command("set-rate")
@click.argument("name")
@click.argument("calls_per_second", type=Decimal)
@click.option(
    "--organisation", metavar="NAME", help="Whose vendor it is; without it, the one that all share."
)
@json_option
def set_rate(*, name: str, calls_per_second: Decimal, organisation: str | None, as_json: bool) -> None:
    """Set how many calls per second batches make of the payment vendor NAME, by all workers together.

    It is 10 for a new vendor. Requests to the single endpoint are not counted.
    """
    with open_session(read_settings()) as session:
        set_vendor_rate(session, name, calls_per_second, organisation_name=organisation)
    record = {"name": name, "organisation": organisation, "calls_per_second": calls_per_second}
    show_done(record, as_json, f"Batches call payment vendor {name!r} {calls_per_second} times a second.")


@vendors.command("list")
@json_option
def list_all(as_json: bool) -> None:
    """List all payment vendors."""
    with open_session(read_settings()) as session:
        records = [_record(vendor, owner) for vendor, owner in list_payment_vendors(session)]
    show_list(
        records,
        as_json,
        nothing="There are no payment vendors yet. Create one: migration-service vendors create NAME",
    )


def _record(vendor: PaymentVendor, organisation: str | None) -> Record:
    return {
        "name": vendor.name,
        "organisation": organisation,
        "kind": vendor.kind,
        "url": vendor.url,
        "secret_env": vendor.secret_env,
        "calls_per_second": vendor.calls_per_second,
    }
