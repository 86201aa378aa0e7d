"""Payment vendors: the list, and forms to create one and to limit the calls of batches."""

from decimal import Decimal

from flask import Blueprint, abort, url_for
from sqlalchemy.orm import Session
from werkzeug.wrappers import Response
from wtforms import BooleanField, DecimalField, SelectField, StringField
from wtforms.validators import InputRequired, Length, NumberRange

from migration_service.blueprints.console.access import may_change, visible, visible_organisations
from migration_service.blueprints.console.acting import ActionForm, Done, Preview, act
from migration_service.blueprints.console.languages import gettext as _
from migration_service.blueprints.console.languages import lazy_gettext as _l
from migration_service.blueprints.console.languages import write_number
from migration_service.blueprints.console.lists import list_at, show_list
from migration_service.models import PaymentVendor
from migration_service.outgoing.rules import show_url
from migration_service.payment_vendors.protocol import VendorKind
from migration_service.services.setup.vendors import (
    LARGEST_RATE,
    LEAST_RATE,
    create_payment_vendor,
    list_payment_vendors,
    set_vendor_rate,
)

blueprint = Blueprint("vendors", __name__, url_prefix="/setup/vendors")


class VendorForm(ActionForm):
    """The properties and the organisation of a new vendor."""

    name = StringField(_l("Name"), validators=[InputRequired(), Length(max=128)])
    kind = SelectField(
        _l("Kind"),
        choices=[it.value for it in VendorKind],
        description=_l("The vendor's interface: the plain JSON one in the documentation, or Stripe's."),
    )
    url = StringField(
        _l("Address"),
        validators=[InputRequired(), Length(max=1024)],
        description=_l("As https://gateway.example/v2."),
    )
    secret_env = StringField(
        _l("Environment variable of the secret"),
        validators=[Length(max=255)],
        description=_l("The name of the variable, not the secret itself. Empty: the vendor needs none."),
        # Somebody may enter the secret here by mistake. It is not sent back.
        render_kw={"value": "", "autocomplete": "off"},
    )
    organisation = SelectField(_l("Organisation"))
    shared = BooleanField(_l("All organisations share it"))


class RateForm(ActionForm):
    """The limit of calls from batches to a vendor."""

    calls_per_second = DecimalField(
        _l("Calls per second"), validators=[InputRequired(), NumberRange(LEAST_RATE, LARGEST_RATE)]
    )


@list_at(blueprint, "/")
def show() -> Response:
    """List payment vendors."""
    return show_list(
        "vendors.html",
        lambda session: visible(list_payment_vendors(session)),
        "0.name 0.kind 0.secret_env organisation=1 0.calls_per_second",
        lambda _session, _found: {"may_change": may_change, "show_url": show_url},
    )


@blueprint.route("/new/", methods=["GET", "POST"])
def create() -> Response:
    """Create a payment vendor.

    Its secret can be any environment variable of the servers, even another vendor's, and is sent to its
    address. Only operators bound to no organisation may therefore do this.
    """
    form = VendorForm()
    form.organisation.choices = visible_organisations()

    preview = Preview(
        title=_("New payment vendor"),
        sentence=_("Creates one payment vendor, which confirms payment instructions."),
        button=_("Create"),
        back=url_for("vendors.show"),
    )

    def perform(session: Session) -> Done:
        vendor = create_payment_vendor(
            session,
            str(form.name.data),
            kind=VendorKind(form.kind.data),
            url=str(form.url.data).strip(),
            secret_env=(form.secret_env.data or "").strip() or None,
            organisation_name=None if form.shared.data else str(form.organisation.data),
        )
        return Done(_("Payment vendor %(name)s was created.", name=vendor.name))

    return act(form, preview, perform)


@blueprint.route("/<int:vendor_id>/rate/", methods=["GET", "POST"])
def set_rate(vendor_id: int) -> Response:
    """Limit the calls per second to a vendor, from the batches of all workers together."""
    form = RateForm()

    def preview(session: Session) -> Preview:
        vendor, _owner = _find(session, vendor_id)
        return Preview(
            title=_("Calls of payment vendor %(name)s", name=vendor.name),
            sentence=_(
                "Batches call it at most %(rate)s times per second now, all workers together. Single "
                "requests are not counted.",
                rate=write_number(float(vendor.calls_per_second)),
            ),
            button=_("Set the rate"),
            back=url_for("vendors.show"),
        )

    def perform(session: Session) -> Done:
        vendor, owner = _find(session, vendor_id)
        rate = Decimal(str(form.calls_per_second.data))
        set_vendor_rate(session, vendor.name, rate, organisation_name=owner)
        done = _(
            "Batches call %(name)s at most %(rate)s times per second.",
            name=vendor.name,
            rate=write_number(float(rate)),
        )
        return Done(done)

    return act(form, preview, perform)


def _find(session: Session, vendor_id: int) -> tuple[PaymentVendor, str | None]:
    """Return a vendor that the operator may change, with the name of its organisation."""
    found = (
        row
        for row in list_payment_vendors(session)
        if row[0].id == vendor_id and may_change(row[0].organisation_id)
    )
    return next(found, None) or abort(404)
