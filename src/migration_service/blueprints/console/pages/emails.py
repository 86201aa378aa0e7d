"""Customer e-mails: their numbers by state, and why some were not sent."""

from flask import Blueprint, render_template

from migration_service.blueprints.console.filters import read_word
from migration_service.blueprints.requests.paging import Listing
from migration_service.blueprints.requests.resources import resources
from migration_service.origin import current_origin
from migration_service.schemas.paging import row_id
from migration_service.services.reporting.emails import count_emails, list_emails
from migration_service.states import EmailState

blueprint = Blueprint("emails", __name__, url_prefix="/emails")


@blueprint.get("/")
def show() -> str:
    """List e-mails, newest first, all or those in a state."""
    state, listing = read_word(EmailState, "state"), Listing.shown(row_id)
    ids = current_origin().import_supplier_ids
    with resources().Session.begin() as session:
        counts = count_emails(session, import_supplier_ids=ids)
        found = list_emails(
            session, import_supplier_ids=ids, state=state, before=listing.after, limit=listing.wanted
        )
    return render_template(
        "emails.html", counts=counts, state=state, emails=listing.cut(found, "id"), listing=listing
    )
