"""Forms to create an import supplier, and to change its status, e-mails and time zone."""

from datetime import datetime

from flask import Blueprint, request, url_for
from sqlalchemy.orm import Session
from werkzeug.wrappers import Response
from wtforms import BooleanField, SelectField, StringField, ValidationError
from wtforms.fields import DateTimeLocalField
from wtforms.fields.choices import SelectChoice
from wtforms.validators import InputRequired, Length, Optional

from migration_payloads.moments import DEFAULT_TIME_ZONE
from migration_payloads.profile import Profile
from migration_service.blueprints.console import acting
from migration_service.blueprints.console.access import supplier_of, visible_organisations
from migration_service.blueprints.console.display import from_viewers_clock, viewer_zone, zoned
from migration_service.blueprints.console.languages import _, _l, mark, ngettext
from migration_service.blueprints.requests.resources import resources
from migration_service.db.reference import wait_until_known
from migration_service.models import ImportSupplier
from migration_service.services.batches.results.listing import list_batches
from migration_service.services.emails import customer_emails
from migration_service.services.setup import suppliers
from migration_service.services.setup.suppliers import KnownSupplier
from migration_service.states import EmailMoment, SupplierStatus

blueprint = Blueprint("supplier_actions", __name__, url_prefix="/suppliers")


class StatusForm(acting.ActionForm):
    """The new status of the supplier."""

    status = SelectField(_l("Status"), choices=[it.value for it in SupplierStatus])


class EmailsForm(acting.ActionForm):
    """The switch for e-mails to customers about their created account, and when these are sent."""

    on = BooleanField(_l("Customers get an e-mail about their account"))
    at = SelectField(
        _l("When"),
        choices=[
            SelectChoice(EmailMoment.AT_GO_LIVE.value, _l("when the account goes live")),
            SelectChoice(
                EmailMoment.AT_APPROVAL.value, _l("when its wave is approved, or the account goes live")
            ),
            SelectChoice(EmailMoment.AT_CREATION.value, _l("when the account is created")),
            SelectChoice(EmailMoment.AT_MOMENT.value, _l("at this moment:")),
        ],
    )
    moment = DateTimeLocalField(_l("Moment"), format=["%Y-%m-%dT%H:%M"], validators=[Optional()])

    def validate_at(self, field: SelectField) -> None:
        """Require a moment if it was chosen, and only then."""
        if (field.data == EmailMoment.AT_MOMENT) != (self.moment.data is not None):
            raise ValidationError(_("Give a moment if the e-mails are sent at one, and only then."))

    def chosen(self) -> datetime | None:
        """Return the moment, if one was chosen."""
        return from_viewers_clock(self.moment.data)


class TimeZoneForm(acting.ActionForm):
    """The new time zone of the supplier."""

    time_zone = StringField(
        _l("Time zone"), validators=[InputRequired()], description=_l("As Europe/Amsterdam.")
    )


class NewCodeForm(acting.ActionForm):
    """Another code for a supplier."""

    name = StringField(_l("Code"), validators=[InputRequired(), Length(max=64)])


class SupplierForm(acting.ActionForm):
    """The properties of a new supplier."""

    code = StringField(_l("Code"), validators=[InputRequired(), Length(max=64)])
    organisation = SelectField(
        _l("Organisation"), choices=visible_organisations, validators=[InputRequired()]
    )
    document_root = StringField(
        _l("Document root"),
        validators=[Length(max=1024)],
        description=_l("The root of document paths, such as s3://bucket/folder."),
    )
    profile = SelectField(
        _l("Profile"),
        choices=[it.value for it in Profile],
        description=_l("Under strict, warnings refuse an account."),
    )
    time_zone = StringField(
        _l("Time zone"),
        default=DEFAULT_TIME_ZONE,
        description=_l("Determines today's date for its data, such as Europe/Amsterdam."),
    )


@blueprint.route("/<code>/status/", methods=["GET", "POST"])
def set_status_of(code: str) -> Response:
    """Set the status of a supplier, which determines what it accepts."""
    form = StatusForm(status=request.args.get("status"))

    def preview(session: Session) -> acting.Preview:
        supplier = supplier_of(session, code)
        batches = list_batches(session, organisation_id=None, import_supplier=code)
        is_open = [batch for batch in batches if batch.finished_at is None]
        return acting.Preview(
            title=_("Status of %(code)s", code=code),
            sentence=ngettext(
                "It is %(status)s now, and has %(num)s batch that has not ended.",
                "It is %(status)s now, and has %(num)s batches that have not ended.",
                len(is_open),
                status=supplier.status,
            ),
            button=_("Set the status"),
            back=url_for("suppliers.show", code=code),
            facts=(
                ("Ongoing", _("accepts new accounts; batches that wait continue")),
                ("Paused", _("requests are refused; batches wait, and continue later")),
                ("Complete", _("requests are refused; batches stop")),
            ),
        )

    def perform(session: Session) -> acting.Done:
        supplier_of(session, code)
        suppliers.set_status(session, code, SupplierStatus(form.status.data))
        return acting.Done(_("Supplier %(code)s is %(status)s.", code=code, status=form.status.data))

    return acting.act(form, preview, perform, afterwards=[acting.feed_workers, wait_until_known])


@blueprint.route("/<code>/emails/", methods=["GET", "POST"])
def set_emails(code: str) -> Response:
    """Set whether customers of a supplier get an e-mail."""
    with resources().Session.begin() as session:
        supplier = session.get_one(ImportSupplier, supplier_of(session, code).id)
    form = EmailsForm(on=supplier.sends_customer_emails, at=supplier.emails_at)
    form.moment.description = _("By the clock of %(zone)s.", zone=viewer_zone().key)

    def preview(session: Session) -> acting.Preview:
        is_on = supplier_of(session, code).sends_customer_emails
        return acting.Preview(
            title=_("Customer e-mails of %(code)s", code=code),
            sentence=_("Customers get an e-mail about their account.")
            if is_on
            else _("Customers get no e-mail about their account."),
            button=_("Set"),
            back=url_for("suppliers.show", code=code),
        )

    def find_effects(session: Session) -> acting.Facts:
        supplier, at = supplier_of(session, code), EmailMoment(str(form.at.data))
        held = customer_emails.count_held(session, supplier.id)
        sent = customer_emails.count_for_policy(session, supplier.id, at=at, moment=form.chosen())
        when = zoned(form.chosen()) if form.moment.data else _("at once") if sent == held else _("later")
        told = (_("Held e-mails"), held), (_("They will be sent"), when if form.on.data else _("never"))
        return (*told, (_("Of these at once"), sent)) if form.on.data and 0 < sent < held else told

    def perform(session: Session) -> acting.Done:
        supplier_of(session, code)
        on, at = bool(form.on.data), EmailMoment(str(form.at.data))
        customer_emails.set_policy(session, code, on=on, at=at, moment=form.chosen())
        if form.on.data:
            return acting.Done(_("Customers of %(code)s get an e-mail from now on.", code=code))
        return acting.Done(_("Customers of %(code)s get no e-mail from now on.", code=code))

    return acting.act(form, preview, perform, find_effects=find_effects, afterwards=[wait_until_known])


acting.add_acts(
    blueprint,
    "/<code>/",
    [
        acting.Act[KnownSupplier](
            name="set_time_zone_of",
            path="time-zone",
            form=TimeZoneForm,
            starts_with=lambda supplier: {"time_zone": supplier.time_zone},
            title=mark("Time zone of %(code)s"),
            sentence=mark(
                "It is %(zone)s now. The time zone determines today's date for its data: where the open "
                "period ends, and which dates are in the future."
            ),
            button=mark("Set"),
            done=mark("The time zone of %(code)s is %(time_zone)s."),
            do=suppliers.set_time_zone,
        ),
        acting.Act[KnownSupplier](
            name="rename",
            form=NewCodeForm,
            starts_with=lambda supplier: {"name": supplier.code},
            title=mark("Rename %(code)s"),
            sentence=mark("It gets another code. This is possible as long as nothing was sent for it."),
            button=mark("Rename"),
            done=mark("%(code)s is %(name)s from now on."),
            do=lambda session, code, name: suppliers.rename_import_supplier(session, code, new_code=name),
            leads_to=lambda name, **_code: url_for("suppliers.show", code=name),
        ),
        acting.Act[KnownSupplier](
            name="remove",
            title=mark("Remove %(code)s"),
            sentence=mark(
                "It is removed. This is possible if it is Complete, nothing was sent for it, and no API key "
                "or webhook is limited to it."
            ),
            button=mark("Remove"),
            done=mark("%(code)s is removed."),
            do=suppliers.remove_import_supplier,
            leads_to=lambda code: url_for("overview.show"),
            is_dangerous=True,
        ),
    ],
    show=supplier_of,
    back=lambda code: url_for("suppliers.show", code=code),
    values=lambda supplier: {"zone": supplier.time_zone},
    afterwards=[wait_until_known],
)
acting.add_acts(
    blueprint,
    "/",
    [
        acting.Act[None](
            name="create",
            path="new",
            form=SupplierForm,
            title=mark("New import supplier"),
            sentence=mark("Creates one import supplier, which is Ongoing from the start."),
            button=mark("Create"),
            done=mark("Import supplier %(code)s was created."),
            do=lambda session, organisation, time_zone, **values: suppliers.create_import_supplier(
                session,
                organisation_name=organisation,
                time_zone=time_zone or DEFAULT_TIME_ZONE,
                **values,
            ),
            leads_to=lambda code, **_others: url_for("suppliers.show", code=code),
        )
    ],
    back=lambda: url_for("overview.show"),
)
