"""`migration-service suppliers`."""

from datetime import datetime

import click

from migration_payloads.moments import DEFAULT_TIME_ZONE
from migration_payloads.profile import Profile
from migration_service.cli.options import Moment
from migration_service.cli.output import Record, count, json_option, pick, show_done, show_list, show_record
from migration_service.cli.session import (
    CannotRunError,
    open_session,
    open_session_of_reference,
    read_settings,
)
from migration_service.config import SettingsError
from migration_service.models import ImportSupplier
from migration_service.services.emails.customer_emails import count_for_policy, set_policy
from migration_service.services.emails.outbox import mail_server
from migration_service.services.setup.suppliers import (
    create_import_supplier,
    get_import_supplier,
    list_import_suppliers,
    remove_import_supplier,
    rename_import_supplier,
    set_status,
    set_time_zone,
)
from migration_service.states import EmailMoment, SupplierStatus

_STATUSES = {status.lower(): status for status in SupplierStatus}


@click.group()
def suppliers() -> None:
    """Manage import suppliers, whose accounts are migrated."""


@suppliers.command()
@click.argument("code")
@click.option(
    "--organisation",
    required=True,
    metavar="NAME",
    help="The organisation whose API keys may migrate its accounts.",
)
@click.option(
    "--document-root",
    default="",
    metavar="URL",
    help="The root of the document paths in payloads, for example s3://bucket/folder.",
)
@click.option(
    "--profile",
    type=click.Choice([profile.value for profile in Profile]),
    default=Profile.LENIENT.value,
    show_default=True,
    help="strict: warnings count as errors.",
)
@click.option(
    "--time-zone",
    default=DEFAULT_TIME_ZONE,
    show_default=True,
    metavar="NAME",
    help="The supplier's time zone, which determines today's date for its data.",
)
@json_option
def create(*, code: str, organisation: str, as_json: bool, **others: str) -> None:
    """Create the import supplier CODE with the status Ongoing."""
    with open_session(read_settings()) as session:
        supplier = create_import_supplier(session, code=code, organisation_name=organisation, **others)
        record = _record(supplier, organisation)
    show_done(record, as_json, f"Import supplier {code!r} was created; its status is {supplier.status}.")


@suppliers.command("list")
@json_option
def list_all(as_json: bool) -> None:
    """List all import suppliers."""
    with open_session(read_settings()) as session:
        records = [_record(supplier, owner) for supplier, owner in list_import_suppliers(session)]
    show_list(
        records,
        as_json,
        nothing="There are no import suppliers yet. Create one: migration-service suppliers create CODE",
    )


@suppliers.command()
@click.argument("code")
@json_option
def show(code: str, as_json: bool) -> None:
    """Show the import supplier CODE."""
    with open_session(read_settings()) as session:
        supplier = get_import_supplier(session, code, organisation_id=None)
        record = _record(session.get_one(ImportSupplier, supplier.id), supplier.organisation_name)
    show_record(record, as_json)


@suppliers.command("set-status")
@click.argument("code")
@click.argument("status", type=click.Choice(list(_STATUSES), case_sensitive=False))
@json_option
def change_status(code: str, status: str, as_json: bool) -> None:
    """Set the status of the import supplier CODE.

    \b
    ongoing   new accounts are accepted
    paused    no accounts are accepted for now
    complete  no more accounts are accepted
    """
    with open_session_of_reference(read_settings()) as session:
        set_status(session, code, _STATUSES[status])
    record = {"code": code, "status": _STATUSES[status]}
    show_done(record, as_json, f"The status of import supplier {code!r} is now {_STATUSES[status]}.")


@suppliers.command("set-emails")
@click.argument("code")
@click.argument("state", type=click.Choice(["on", "off"]))
@click.option(
    "--send",
    "at",
    type=click.Choice([it.value for it in EmailMoment if it is not EmailMoment.AT_MOMENT]),
    help="Hold them until then.  [default: as before; at_go_live at first]",
)
@click.option(
    "--from",
    "moment",
    type=Moment(["%Y-%m-%dT%H:%M:%S%z"], "2027-03-01T06:00:00Z"),
    metavar="MOMENT",
    help="Hold them until this moment, such as 2027-03-01T06:00:00Z.",
)
@click.option("--yes", is_flag=True, help="Do not ask before held e-mails are sent.")
@json_option
def change_emails(
    *, code: str, state: str, at: str | None, moment: datetime | None, yes: bool, as_json: bool
) -> None:
    """Turn e-mails to customers about their created account on or off for the import supplier CODE.

    They are held until the account goes live, unless --send or --from says otherwise. If held ones are then
    sent, their number is shown first.

    This requires a mail server: set MIGRATION_SERVICE_SMTP_URL and MIGRATION_SERVICE_EMAIL_FROM for this
    command and for the workers.
    """
    settings = read_settings()
    if state == "on":
        try:
            mail_server(settings)
        except SettingsError as error:
            raise CannotRunError(f"Customer e-mails cannot be sent: {error}") from error
    if at and moment:
        raise click.UsageError("Expected either --send or --from.")
    chosen = EmailMoment(at) if at else None
    if state == "on" and not yes:
        with open_session(settings) as session:
            supplier = get_import_supplier(session, code, organisation_id=None)
            held = count_for_policy(session, supplier.id, at=chosen, moment=moment)
            due = moment or (None if at else session.get_one(ImportSupplier, supplier.id).emails_from)
        if held:
            when = f"at {due:%Y-%m-%d %H:%M:%S %Z}" if due else "now"
            click.confirm(
                f"{count(held, 'held e-mail')} will be sent {when}. Continue?", abort=True, err=True
            )
    with open_session_of_reference(settings) as session:
        set_policy(session, code, on=state == "on", at=chosen, moment=moment)
    show_done(
        {"code": code, "customer_emails": state},
        as_json,
        f"Customer e-mails for import supplier {code!r} are now {state}.",
    )


@suppliers.command("set-time-zone")
@click.argument("code")
@click.argument("time_zone")
@json_option
def change_time_zone(code: str, time_zone: str, as_json: bool) -> None:
    """Set the time zone of the import supplier CODE, which determines today's date for its data.

    TIME_ZONE is a name from the IANA database, such as Europe/Amsterdam.
    """
    with open_session_of_reference(read_settings()) as session:
        set_time_zone(session, code, time_zone)
    record = {"code": code, "time_zone": time_zone}
    show_done(record, as_json, f"The time zone of import supplier {code!r} is now {time_zone}.")


@suppliers.command()
@click.argument("code")
@click.argument("new_code")
@json_option
def rename(code: str, new_code: str, as_json: bool) -> None:
    """Give the import supplier CODE, for which nothing was sent yet, the code NEW_CODE."""
    with open_session_of_reference(read_settings()) as session:
        rename_import_supplier(session, code, new_code)
    show_done({"code": new_code, "before": code}, as_json, f"Import supplier {code!r} is now {new_code!r}.")


@suppliers.command()
@click.argument("code")
@json_option
def remove(code: str, as_json: bool) -> None:
    """Remove the import supplier CODE, which is Complete, and for which nothing was sent.

    No API key or webhook may be limited to it.
    """
    with open_session_of_reference(read_settings()) as session:
        remove_import_supplier(session, code)
    show_done({"code": code}, as_json, f"Import supplier {code!r} was removed.")


def _record(supplier: ImportSupplier, organisation: str) -> Record:
    return {
        "code": supplier.code,
        "organisation": organisation,
        **pick(supplier, "status", "profile", "time_zone", "document_root"),
        "customer_emails": "on" if supplier.sends_customer_emails else "off",
        **pick(supplier, "emails_at", "emails_from", "created_at", "live_at"),
    }
