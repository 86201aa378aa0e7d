"""`migration-service suppliers`."""

import click

from migration_service.cli.output import Record, json_option, show_done, show_list, show_record
from migration_service.cli.session import CannotRunError, open_session, read_settings
from migration_service.config import SettingsError
from migration_service.models import ImportSupplier
from migration_service.services.processing.customer_emails import mail_server
from migration_service.services.setup.suppliers import (
    KnownSupplier,
    create_import_supplier,
    get_import_supplier,
    list_import_suppliers,
    set_customer_emails,
    set_status,
)
from migration_service.states import Profile, SupplierStatus

_STATUSES = {status.lower(): status for status in SupplierStatus}


@click.group()
def suppliers() -> None:
    """Import suppliers, which accounts are migrated from."""


@suppliers.command()
@click.argument("code")
@click.option("--organisation", required=True, metavar="NAME", help="Whose API keys migrate its accounts.")
@click.option(
    "--document-root",
    default="",
    metavar="URL",
    help="Where the document paths of payloads start, as s3://bucket/folder.",
)
@click.option(
    "--profile",
    type=click.Choice([profile.value for profile in Profile]),
    default=Profile.LENIENT.value,
    show_default=True,
    help="With strict, what is only a warning otherwise is an error.",
)
@json_option
def create(code: str, organisation: str, document_root: str, profile: str, as_json: bool) -> None:
    """Make the import supplier CODE; it is Ongoing from the start."""
    with open_session(read_settings()) as session:
        supplier = create_import_supplier(
            session,
            code=code,
            organisation_name=organisation,
            document_root=document_root,
            profile=profile,
        )
        record = _record(supplier, organisation)
    show_done(record, as_json, f"Import supplier {code!r} is there, and {supplier.status}.")


@suppliers.command("list")
@json_option
def list_all(as_json: bool) -> None:
    """Every import supplier."""
    with open_session(read_settings()) as session:
        records = [_record(supplier, owner) for supplier, owner in list_import_suppliers(session)]
    show_list(records, as_json, nothing="There are no import suppliers yet: suppliers create CODE.")


@suppliers.command()
@click.argument("code")
@json_option
def show(code: str, as_json: bool) -> None:
    """The import supplier CODE."""
    with open_session(read_settings()) as session:
        supplier = get_import_supplier(session, code, organisation_id=None)
        record = _record(supplier, supplier.organisation_name)
    show_record(record, as_json)


@suppliers.command("set-status")
@click.argument("code")
@click.argument("status", type=click.Choice(list(_STATUSES), case_sensitive=False))
@json_option
def change_status(code: str, status: str, as_json: bool) -> None:
    """Say what the import supplier CODE takes from now on.

    \b
    ongoing   new accounts
    paused    nothing now; more accounts are expected later
    complete  nothing any more
    """
    with open_session(read_settings()) as session:
        set_status(session, code, _STATUSES[status])
    record = {"code": code, "status": _STATUSES[status]}
    show_done(record, as_json, f"Import supplier {code!r} is {_STATUSES[status]}.")


@suppliers.command("set-emails")
@click.argument("code")
@click.argument("state", type=click.Choice(["on", "off"]))
@json_option
def change_emails(code: str, state: str, as_json: bool) -> None:
    """Say whether customers of the import supplier CODE get an e-mail when their account is created.

    It needs a mail server: MIGRATION_SERVICE_SMTP_URL and MIGRATION_SERVICE_EMAIL_FROM, here and for the
    workers.
    """
    settings = read_settings()
    if state == "on":
        try:
            mail_server(settings)
        except SettingsError as error:
            raise CannotRunError(f"No customer e-mail can be sent: {error}") from error
    with open_session(settings) as session:
        set_customer_emails(session, code, on=state == "on")
    show_done({"code": code, "customer_emails": state}, as_json, f"Customer e-mails of {code!r} are {state}.")


def _record(supplier: ImportSupplier | KnownSupplier, organisation: str) -> Record:
    return {
        "code": supplier.code,
        "organisation": organisation,
        "status": supplier.status,
        "profile": supplier.profile,
        "document_root": supplier.document_root,
        "customer_emails": "on" if supplier.sends_customer_emails else "off",
        "created_at": supplier.created_at,
    }
