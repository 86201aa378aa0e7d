"""`migration-service vendors`."""

from contextlib import suppress
from decimal import Decimal, InvalidOperation

import click

from migration_service.cli.output import Record, json_option, pick, show_done, show_list
from migration_service.cli.session import open_session, read_settings
from migration_service.models import PaymentVendor
from migration_service.payment_vendors.protocol import VendorKind
from migration_service.services.setup.vendors import (
    create_payment_vendor,
    list_payment_vendors,
    set_vendor_rate,
)


def _number(text: str) -> Decimal:
    with suppress(InvalidOperation):
        if (number := Decimal(text)).is_finite():
            return number
    raise click.BadParameter(f"{text!r} is not a number.")


@click.group()
def vendors() -> None:
    """Manage the payment vendors that verify payment instructions."""


@vendors.command()
@click.argument("name")
@click.option(
    "--kind",
    required=True,
    type=click.Choice([kind.value for kind in VendorKind]),
    help="The vendor's interface: the plain JSON one in the documentation, or Stripe's.",
)
@click.option("--url", required=True, help="The vendor's address, for example https://gateway.example/v2.")
@click.option(
    "--secret-env",
    metavar="VAR",
    help="The environment variable of web processes and workers that holds the vendor's secret. The "
    "secret is not stored.",
)
@click.option(
    "--organisation", metavar="NAME", help="The organisation that owns the vendor.  [default: shared by all]"
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
@click.argument("calls_per_second", type=_number)
@click.option(
    "--organisation",
    metavar="NAME",
    help="The organisation that owns the vendor.  [default: the shared vendor]",
)
@json_option
def set_rate(*, name: str, calls_per_second: Decimal, organisation: str | None, as_json: bool) -> None:
    """Limit the calls per second to the payment vendor NAME, from the batches of all workers together.

    The limit for a new vendor is 10. Requests to the single endpoint are not counted.
    """
    with open_session(read_settings()) as session:
        set_vendor_rate(session, name, calls_per_second, organisation_name=organisation)
    record = {"name": name, "organisation": organisation, "calls_per_second": calls_per_second}
    show_done(
        record, as_json, f"Batches call payment vendor {name!r} at most {calls_per_second} times per second."
    )


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
        **pick(vendor, "kind", "url", "secret_env", "calls_per_second"),
    }
