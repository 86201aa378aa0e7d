"""Customer e-mails: their numbers by state, and why some were not sent."""

from flask import Blueprint, render_template, request

from migration_service.blueprints.requests.resources import resources
from migration_service.origin import current_origin
from migration_service.services.reporting.emails import count_emails, list_emails
from migration_service.states import EmailState

blueprint = Blueprint("emails", __name__, url_prefix="/emails")
PAGE = 50


@blueprint.get("/")
def show() -> str:
    """List e-mails, newest first, all or those in a state."""
    given, before = request.args.get("state"), request.args.get("before", "")
    state = EmailState(given) if given in set(EmailState) else None
    ids = current_origin().import_supplier_ids
    with resources().Session.begin() as session:
        counts = count_emails(session, import_supplier_ids=ids)
        found = list_emails(
            session,
            import_supplier_ids=ids,
            state=state,
            before=int(before[:18]) if before.isdecimal() else None,
            limit=PAGE + 1,
        )
    return render_template(
        "emails.html",
        counts=counts,
        state=state,
        emails=found[:PAGE],
        next_before=found[PAGE - 1].id if len(found) > PAGE else None,
    )
