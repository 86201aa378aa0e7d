"""Webhooks: where events are sent, who is told if that ends, and the switch for each."""

from functools import partial
from typing import Any
from uuid import UUID

from flask import Blueprint, url_for
from sqlalchemy.orm import Session
from werkzeug.wrappers import Response
from wtforms import EmailField
from wtforms.validators import Length

from migration_payloads.schemas.base import load
from migration_service.blueprints.console.access import current_operator, sees
from migration_service.blueprints.console.acting import Act, ActionForm, add_acts
from migration_service.blueprints.console.languages import _, _l, mark
from migration_service.blueprints.console.lists import list_at, show_list
from migration_service.blueprints.requests.resources import resources
from migration_service.errors import RequestFailedValidationError, WebhookNotFoundError
from migration_service.models import WebhookEndpoint
from migration_service.outgoing.rules import show_url
from migration_service.schemas.webhooks import OperatorsChangeSchema
from migration_service.services.webhooks import endpoints

blueprint = Blueprint("webhooks", __name__, url_prefix="/setup/webhooks")


class OwnerForm(ActionForm):
    """The address of a person. Clients cannot set it, because the service sends e-mail to it."""

    email = EmailField(
        _l("E-mail address of the owner"),
        validators=[Length(max=254)],
        description=_l("Who is told if it is switched off. Empty: nobody."),
    )


@list_at(blueprint, "/")
def show_all() -> Response:
    """List webhooks."""
    ids = current_operator().organisation_ids
    owners = None if ids is None else sorted(ids)
    find = partial(endpoints.list_endpoints, caller=None, organisation_ids=owners)
    columns = (
        "id description organisation event_types import_suppliers email enabled failing_since created_at"
    )
    return show_list("webhooks.html", find, columns, lambda _session, _found: {"show_url": show_url})


def _find(session: Session, webhook_id: UUID, *, lock: bool = False) -> WebhookEndpoint:
    """Return the webhook with this id. Raise WebhookNotFoundError if the operator may not see it."""
    endpoint = endpoints.get_endpoint(session, webhook_id, None, lock=lock)
    if not sees(endpoint.organisation_id):
        raise WebhookNotFoundError(found=str(webhook_id))
    return endpoint


def _change(session: Session, webhook_id: UUID, **values: Any) -> None:
    rules = endpoints.address_rules(resources().settings)
    read, errors = load(OperatorsChangeSchema(), values)
    if errors:
        raise RequestFailedValidationError(errors=errors)
    endpoints.change_endpoint(session, _find(session, webhook_id, lock=True), rules, read)


_ACTS = [
    Act[WebhookEndpoint](
        name="set_email",
        form=OwnerForm,
        starts_with=lambda webhook: {"email": webhook.email},
        title=mark("Owner of webhook %(name)s"),
        sentence=mark("The owner is told by e-mail if it is switched off."),
        facts=lambda webhook: ((_("E-mail address of the owner"), webhook.email or _("none")),),
        button=mark("Change"),
        done=mark("The webhook was changed."),
        do=lambda session, webhook_id, email: _change(session, webhook_id, email=email.strip() or None),
    ),
    Act[WebhookEndpoint](
        name="switch_off",
        title=mark("Switch off webhook %(name)s"),
        sentence=mark("Events that happen while it is off are not sent. They can be sent again later."),
        button=mark("Switch off"),
        done=mark("The webhook is switched off."),
        do=partial(_change, enabled=False),
    ),
    Act[WebhookEndpoint](
        name="switch_on",
        title=mark("Switch on webhook %(name)s"),
        sentence=mark("Events that happen from now on are sent again."),
        button=mark("Switch on"),
        done=mark("The webhook is switched on."),
        do=partial(_change, enabled=True),
    ),
]
add_acts(
    blueprint,
    "/<uuid:webhook_id>/",
    _ACTS,
    show=_find,
    back=lambda webhook_id: url_for("webhooks.show_all"),
    values=lambda webhook: {"name": webhook.description or show_url(webhook.url)},
)
