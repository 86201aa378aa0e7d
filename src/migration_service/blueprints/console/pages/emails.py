"""Customer e-mails: their numbers by state, and why some were not sent."""

from functools import partial

from flask import Blueprint, Response, request

from migration_service.blueprints.console.lists import list_at, show_list
from migration_service.origin import current_origin
from migration_service.schemas.paging import row_id
from migration_service.services.reporting.emails import count_emails, list_emails
from migration_service.states import EmailState

blueprint = Blueprint("emails", __name__, url_prefix="/emails")

_COLUMNS = "import_supplier external_account_number state created_at next_try_at sent_at failures error"


@list_at(blueprint, "/")
def show() -> Response:
    """List e-mails, newest first, all or those in a state."""
    state, ids = request.args.get("state", type=EmailState), current_origin().import_supplier_ids
    return show_list(
        "emails.html",
        partial(list_emails, import_supplier_ids=ids, state=state),
        _COLUMNS,
        lambda session, _found: {"state": state, "counts": count_emails(session, import_supplier_ids=ids)},
        key="id",
        read_key=row_id,
    )
