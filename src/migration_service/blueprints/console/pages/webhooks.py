"""Webhooks: where events are sent, what came of each delivery, and forms for both."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any
from uuid import UUID

from flask import Blueprint, render_template, url_for
from sqlalchemy.orm import Session
from werkzeug.wrappers import Response
from wtforms import BooleanField, EmailField, IntegerField, SelectField, SelectMultipleField, StringField
from wtforms.validators import InputRequired, Length, NumberRange

from migration_service.blueprints.console.access import current_operator, sees, visible_organisations
from migration_service.blueprints.console.acting import ActionForm, Done, Preview, act
from migration_service.blueprints.console.filters import read_word
from migration_service.blueprints.console.languages import gettext as _
from migration_service.blueprints.console.languages import lazy_gettext as _l
from migration_service.blueprints.console.languages import ngettext
from migration_service.blueprints.console.lists import list_at, show_list
from migration_service.blueprints.requests.resources import resources
from migration_service.errors import WebhookNotFoundError
from migration_service.models import WebhookDelivery, WebhookEndpoint
from migration_service.outgoing.rules import LONGEST_URL, show_url
from migration_service.schemas import webhooks
from migration_service.schemas.events import EventType
from migration_service.schemas.paging import row_id
from migration_service.services.setup.organisations import get_organisation
from migration_service.services.webhooks import deliveries, endpoints
from migration_service.services.webhooks.setup import address_rules, read_values, seal
from migration_service.states import DeliveryState

blueprint = Blueprint("webhooks", __name__, url_prefix="/setup/webhooks")
_SHOWN_AS_THEY_ARE = sorted(endpoints.PLAIN - {"url", "description"})


class WebhookForm(ActionForm):
    """The values of a webhook. Its address is not shown, because a part of it may be secret."""

    url = StringField(
        _l("New address"),
        validators=[Length(max=LONGEST_URL)],
        description=_l("Empty: it stays as it is."),
        render_kw={"autocomplete": "off"},
    )
    description = StringField(_l("Name"), validators=[Length(max=256)])
    event_types = SelectMultipleField(
        _l("Types of events"),
        choices=[it.value for it in EventType],
        description=_l("None chosen: all, including future ones."),
    )
    import_suppliers = StringField(
        _l("Import suppliers"), description=_l("Codes separated by spaces. Empty: all of the organisation.")
    )
    email = EmailField(
        _l("E-mail address of the owner"),
        validators=[Length(max=254)],
        description=_l("Who is told if it is switched off. Empty: nobody."),
    )

    def values(self) -> dict[str, Any]:
        """Return the values for `change_endpoint`."""
        given = {name: (self[name].data or "").strip() for name in endpoints.PLAIN}
        # A name is empty if it is not given, an address stays as it is, and others are none.
        plain = {name: value or None for name, value in given.items() if value or name != "url"}
        return plain | {
            "description": given["description"],
            "event_types": self.event_types.data or None,
            "import_suppliers": (self.import_suppliers.data or "").split() or None,
        }


class NewWebhookForm(WebhookForm):
    """The values of a new webhook, and its organisation."""

    organisation = SelectField(_l("Organisation"), validators=[InputRequired()])
    url = StringField(
        _l("Address"),
        validators=[InputRequired(), Length(max=LONGEST_URL)],
        description=_l("As https://billing.example.com/events, of a public host."),
    )


class RotationForm(ActionForm):
    """The overlap, in which the old secret signs, too."""

    hours = IntegerField(
        _l("Hours for which the old secret also signs"),
        default=webhooks.USUAL_OVERLAP,
        validators=[NumberRange(0, webhooks.LONGEST_OVERLAP)],
    )


class RemovalForm(ActionForm):
    """The confirmation of a removal."""

    sure = BooleanField(_l("This is permanent"), validators=[InputRequired()])


class RedeliveryForm(ActionForm):
    """The events to send again."""

    hours = IntegerField(
        _l("Events of how many hours"),
        default=24,
        validators=[InputRequired(), NumberRange(1, deliveries.KEPT_DAYS * 24)],
    )
    only_failed = BooleanField(_l("Only those whose deliveries have failed"), default=True)


@list_at(blueprint, "/")
def show_all() -> Response:
    """List webhooks."""
    ids = current_operator().organisation_ids
    find = partial(endpoints.list_endpoints, organisation_ids=None if ids is None else sorted(ids))
    columns = "id description organisation event_types import_suppliers enabled failing_since created_at"
    return show_list("webhooks.html", find, columns, lambda _session, _found: {"show_url": show_url})


@blueprint.route("/new/", methods=["GET", "POST"])
def create() -> Response:
    """Create a webhook, and show its secret once."""
    form = NewWebhookForm()
    form.organisation.choices = visible_organisations()
    preview = Preview(
        title=_("New webhook"),
        sentence=_(
            "Sends the organisation's events to an address, from now on. Its secret is shown only once."
        ),
        button=_("Create"),
        back=url_for("webhooks.show_all"),
    )

    def perform(session: Session) -> Done:
        settings = resources().settings
        owner = get_organisation(session, str(form.organisation.data)).id
        values = read_values(webhooks.OperatorsBodySchema(), form.values())
        _endpoint, secret = endpoints.create_endpoint(
            session, owner, address_rules(settings), seal(settings), values
        )
        return Done(
            _("The webhook was created. Its secret is not shown again."),
            secret=secret,
            secret_of=_("Secret of the webhook"),
        )

    return act(form, preview, perform)


@list_at(blueprint, "/<uuid:webhook_id>/")
def show(webhook_id: UUID) -> Response:
    """Show a webhook with its deliveries, newest first, all or those in a state."""
    state = read_word(DeliveryState, "state")

    def find(session: Session, **page: Any) -> Sequence[WebhookDelivery]:
        return deliveries.list_deliveries(session, _endpoint_of(session, webhook_id), state=state, **page)

    def more(session: Session, _found: object) -> dict[str, Any]:
        webhook, form = endpoints.report_endpoint(session, _endpoint_of(session, webhook_id)), WebhookForm()
        values = [(form[name].label.text, getattr(webhook, name)) for name in _SHOWN_AS_THEY_ARE]
        return {"webhook": webhook, "address": show_url(webhook.url), "values": values, "state": state}

    columns = "id event_id event_type state created_at attempts next_attempt settled_at"
    return show_list("webhook.html", find, columns, more, key="id", read_key=row_id)


@blueprint.get("/<uuid:webhook_id>/deliveries/<int:delivery_number>/")
def show_delivery(webhook_id: UUID, delivery_number: int) -> str:
    """Show a delivery with all its attempts."""
    with resources().Session.begin() as session:
        endpoint = _endpoint_of(session, webhook_id)
        delivery = deliveries.report_delivery(
            session, deliveries.get_delivery(session, endpoint, delivery_number)
        )
        webhook = endpoints.report_endpoint(session, endpoint)
    return render_template("delivery.html", webhook=webhook, delivery=delivery)


@blueprint.route("/<uuid:webhook_id>/change/", methods=["GET", "POST"])
def change(webhook_id: UUID) -> Response:
    """Change the values of a webhook."""
    with resources().Session.begin() as session:
        webhook = endpoints.report_endpoint(session, _endpoint_of(session, webhook_id))
    now = {name: getattr(webhook, name) for name in (endpoints.PLAIN - {"url"}) | {"event_types"}}
    codes = " ".join(webhook.import_suppliers or ())
    form = WebhookForm(data=now | {"import_suppliers": codes})
    preview = Preview(
        title=_("Change webhook %(name)s", name=_name_of(webhook)),
        sentence=_("This applies to the events that happen from now on."),
        button=_("Change"),
        back=_page_of(webhook_id),
    )

    def perform(session: Session) -> Done:
        endpoint = _endpoint_of(session, webhook_id, lock=True)
        values = read_values(webhooks.OperatorsChangeSchema(), form.values())
        endpoints.change_endpoint(session, endpoint, address_rules(resources().settings), values)
        return Done(_("The webhook was changed."))

    return act(form, preview, perform)


@blueprint.route("/<uuid:webhook_id>/switch/", methods=["GET", "POST"])
def switch(webhook_id: UUID) -> Response:
    """Switch a webhook off, or on again."""

    def preview(session: Session) -> Preview:
        endpoint = _endpoint_of(session, webhook_id)
        is_on = endpoint.disabled_at is None
        return Preview(
            title=_("Switch off webhook %(name)s", name=_name_of(endpoint))
            if is_on
            else _("Switch on webhook %(name)s", name=_name_of(endpoint)),
            sentence=_("Events that happen while it is off are not sent. They can be sent again later.")
            if is_on
            else _("Events that happen from now on are sent again."),
            button=_("Switch off") if is_on else _("Switch on"),
            back=_page_of(webhook_id),
        )

    def perform(session: Session) -> Done:
        endpoint = _endpoint_of(session, webhook_id, lock=True)
        turns_on = endpoint.disabled_at is not None
        endpoints.change_endpoint(
            session, endpoint, address_rules(resources().settings), {"enabled": turns_on}
        )
        return Done(_("The webhook is switched on.") if turns_on else _("The webhook is switched off."))

    return act(ActionForm(), preview, perform)


@blueprint.route("/<uuid:webhook_id>/remove/", methods=["GET", "POST"])
def remove(webhook_id: UUID) -> Response:
    """Remove a webhook for ever."""

    def preview(session: Session) -> Preview:
        return Preview(
            title=_("Remove webhook %(name)s", name=_name_of(_endpoint_of(session, webhook_id))),
            sentence=_("Nothing more is sent to it, and its deliveries are not shown any more."),
            button=_("Remove permanently"),
            back=_page_of(webhook_id),
            is_dangerous=True,
        )

    def perform(session: Session) -> Done:
        endpoints.remove_endpoint(session, _endpoint_of(session, webhook_id, lock=True))
        return Done(_("The webhook was removed."), url_for("webhooks.show_all"))

    return act(RemovalForm(), preview, perform)


@blueprint.route("/<uuid:webhook_id>/secret/", methods=["GET", "POST"])
def rotate(webhook_id: UUID) -> Response:
    """Replace the secret of a webhook, and show the new one once."""
    form = RotationForm()

    def preview(session: Session) -> Preview:
        return Preview(
            title=_("New secret of webhook %(name)s", name=_name_of(_endpoint_of(session, webhook_id))),
            sentence=_("Until the overlap ends, messages are signed with both secrets."),
            button=_("Replace the secret"),
            back=_page_of(webhook_id),
        )

    def perform(session: Session) -> Done:
        endpoint = _endpoint_of(session, webhook_id, lock=True)
        hours = form.hours.data or 0
        secret = endpoints.rotate_secret(session, endpoint, seal(resources().settings), overlap_hours=hours)
        return Done(
            _("The secret was replaced. It is not shown again."),
            secret=secret,
            secret_of=_("Secret of the webhook"),
        )

    return act(form, preview, perform)


@blueprint.route("/<uuid:webhook_id>/test/", methods=["GET", "POST"])
def test(webhook_id: UUID) -> Response:
    """Send a test event."""

    def preview(session: Session) -> Preview:
        return Preview(
            title=_("Test webhook %(name)s", name=_name_of(_endpoint_of(session, webhook_id))),
            sentence=_("Sends one event of the type webhook.test, which is not in the feed."),
            button=_("Send the event"),
            back=_page_of(webhook_id),
        )

    def perform(session: Session) -> Done:
        delivery = deliveries.send_test(session, _endpoint_of(session, webhook_id))
        place = url_for("webhooks.show_delivery", webhook_id=webhook_id, delivery_number=delivery.id)
        return Done(_("The event is being sent."), place)

    return act(ActionForm(), preview, perform)


@blueprint.route("/<uuid:webhook_id>/deliveries/<int:delivery_number>/redeliver/", methods=["GET", "POST"])
def redeliver_one(webhook_id: UUID, delivery_number: int) -> Response:
    """Send the event of a delivery again."""

    def preview(session: Session) -> Preview:
        delivery = deliveries.get_delivery(session, _endpoint_of(session, webhook_id), delivery_number)
        return Preview(
            title=_("Send event %(type)s again", type=delivery.event_type),
            sentence=_("Sends one event again, with the same id. The receiver may already have it."),
            button=_("Send the event"),
            back=url_for("webhooks.show_delivery", webhook_id=webhook_id, delivery_number=delivery_number),
        )

    def perform(session: Session) -> Done:
        endpoint = _endpoint_of(session, webhook_id)
        again = deliveries.redeliver(
            session, endpoint, deliveries.get_delivery(session, endpoint, delivery_number)
        )
        place = url_for("webhooks.show_delivery", webhook_id=webhook_id, delivery_number=again.id)
        return Done(_("The event is being sent."), place)

    return act(ActionForm(), preview, perform)


@blueprint.route("/<uuid:webhook_id>/redeliver/", methods=["GET", "POST"])
def redeliver_many(webhook_id: UUID) -> Response:
    """Send the events of some hours again."""
    form = RedeliveryForm()

    def preview(session: Session) -> Preview:
        return Preview(
            title=_("Send events to %(name)s again", name=_name_of(_endpoint_of(session, webhook_id))),
            sentence=_(
                "They have the same ids. Also those that happened while it was switched off are sent."
            ),
            button=_("Send the events"),
            back=_page_of(webhook_id),
        )

    def perform(session: Session) -> Done:
        since = datetime.now(UTC) - timedelta(hours=form.hours.data or 0)
        endpoint = _endpoint_of(session, webhook_id)
        events = deliveries.redeliver_since(session, endpoint, since, only_failed=bool(form.only_failed.data))
        return Done(ngettext("%(num)s event is being sent.", "%(num)s events are being sent.", events))

    return act(form, preview, perform)


def _endpoint_of(session: Session, webhook_id: UUID, *, lock: bool = False) -> WebhookEndpoint:
    """Return the webhook with this id. Raise WebhookNotFoundError if the operator may not see it."""
    endpoint = endpoints.get_endpoint(session, webhook_id, organisation_id=None, lock=lock)
    if not sees(endpoint.organisation_id):
        raise WebhookNotFoundError(found=str(webhook_id))
    return endpoint


def _name_of(webhook: Any) -> str:
    return str(webhook.description or show_url(webhook.url))


def _page_of(webhook_id: UUID) -> str:
    return url_for("webhooks.show", webhook_id=webhook_id)
