"""Payment vendors, which are set up with `migration-service vendors`."""

from flask import Blueprint, Response

from migration_service.blueprints.console.access import visible
from migration_service.blueprints.console.lists import list_at, show_list
from migration_service.outgoing.rules import show_url
from migration_service.services.setup.vendors import list_payment_vendors

blueprint = Blueprint("vendors", __name__, url_prefix="/setup/vendors")


@list_at(blueprint, "/")
def show() -> Response:
    """List payment vendors."""
    return show_list(
        "vendors.html",
        lambda session: visible(list_payment_vendors(session)),
        "0.name 0.kind 0.secret_env organisation=1 0.calls_per_second",
        lambda _session, _found: {"show_url": show_url},
    )
