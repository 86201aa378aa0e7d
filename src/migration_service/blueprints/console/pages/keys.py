"""API keys: their owners and limits, and the form to revoke one. `migration-service` issues them."""

from datetime import UTC, datetime
from typing import Any

from flask import Blueprint, url_for
from sqlalchemy.orm import Session
from werkzeug.wrappers import Response
from wtforms import BooleanField

from migration_service.blueprints.console.access import sees, visible
from migration_service.blueprints.console.acting import ActionForm, Done, Preview, act
from migration_service.blueprints.console.languages import _, _l, ngettext
from migration_service.blueprints.console.lists import list_at, show_list
from migration_service.db.reference import wait_until_known
from migration_service.errors import ApiKeyNotFoundError
from migration_service.models import ApiKey
from migration_service.outgoing.rules import show_url
from migration_service.services.access import api_keys
from migration_service.services.access.sessions import list_sessions
from migration_service.services.setup.suppliers import list_import_suppliers
from migration_service.services.webhooks.switching import find_webhooks_of_key, switch_off_webhooks_of_key

blueprint = Blueprint("keys", __name__, url_prefix="/setup/keys")

_COLUMNS = (
    "0.prefix 0.name organisation=1 0.scopes import_suppliers=2 0.allowed_networks 0.created_at "
    "0.last_used_at 0.expires_at 0.revoked_at"
)


class RevocationForm(ActionForm):
    """What becomes of the webhooks that the key has created."""

    keep_webhooks = BooleanField(_l("The webhooks that it has created stay on"))


@list_at(blueprint, "/")
def show() -> Response:
    """List API keys, each with its organisation and the codes of the suppliers that it is limited to."""

    def find(session: Session) -> list[tuple[ApiKey, str, list[str]]]:
        codes = {supplier.id: supplier.code for supplier, _owner in list_import_suppliers(session)}
        found = visible(api_keys.list_api_keys(session))
        return [(it, owner, [codes[pk] for pk in it.import_supplier_ids or ()]) for it, owner in found]

    def more(_session: Session, found: list[Any]) -> dict[str, int]:
        now = datetime.now(UTC)
        ended = sum(bool(it.revoked_at or (it.expires_at and it.expires_at <= now)) for it, *_ in found)
        return {"valid": len(found) - ended}

    return show_list("keys.html", find, _COLUMNS, more)


@blueprint.route("/<prefix>/revoke/", methods=["GET", "POST"])
def revoke(prefix: str) -> Response:
    """Revoke a key with its tokens."""
    form = RevocationForm()

    def preview(session: Session) -> Preview:
        key = _key(session, prefix)
        running = len(list_sessions(session, key))
        webhooks = find_webhooks_of_key(session, key.id)
        names = ", ".join(it.description or show_url(it.url) for it in webhooks)
        return Preview(
            title=_("Revoke API key %(prefix)s", prefix=prefix),
            sentence=ngettext(
                "The key and %(num)s session end immediately. Its batches are paused. This is permanent.",
                "The key and %(num)s sessions end immediately. Its batches are paused. This is permanent.",
                running,
            ),
            facts=((_("Webhooks that it has created"), names or _("none")),),
            button=_("Revoke permanently"),
            back=url_for("keys.show"),
            is_dangerous=True,
        )

    def perform(session: Session) -> Done:
        key = _key(session, prefix)
        api_keys.revoke_api_key(session, prefix)
        if not form.keep_webhooks.data:
            switch_off_webhooks_of_key(session, key.id)
        return Done(_("API key %(prefix)s was revoked.", prefix=prefix))

    return act(form, preview, perform, afterwards=[wait_until_known])


def _key(session: Session, prefix: str) -> ApiKey:
    """Return the key with this prefix. Raise ApiKeyNotFoundError if the operator may not see it."""
    key = api_keys.get_api_key(session, prefix)
    if not sees(key.organisation_id):
        raise ApiKeyNotFoundError(found=prefix)
    return key
