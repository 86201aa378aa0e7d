"""The concurrency limit: how many accounts are processed at the same time."""

from flask import Blueprint, url_for
from sqlalchemy.orm import Session
from werkzeug.wrappers import Response
from wtforms import IntegerField
from wtforms.validators import NumberRange, Optional

from migration_service.blueprints.console.acting import ActionForm, Done, Preview, act
from migration_service.blueprints.console.languages import gettext as _
from migration_service.blueprints.console.languages import lazy_gettext as _l
from migration_service.blueprints.console.languages import ngettext
from migration_service.services.reporting.counts import read_in_progress
from migration_service.services.setup.limits import LARGEST_LIMIT, set_concurrency_limit

blueprint = Blueprint("limits", __name__, url_prefix="/limit")


class LimitForm(ActionForm):
    """The limit. Empty for no limit."""

    limit = IntegerField(
        _l("Accounts at the same time"),
        validators=[Optional(), NumberRange(1, LARGEST_LIMIT)],
        description=_l("Empty: without limit."),
    )


@blueprint.route("/", methods=["GET", "POST"])
def change() -> Response:
    """Set the concurrency limit."""
    form = LimitForm()

    def preview(session: Session) -> Preview:
        now = read_in_progress(session)
        limit = _("none") if now.limit is None else now.limit
        return Preview(
            title=_("Concurrency limit"),
            sentence=ngettext(
                "The limit is %(limit)s. %(num)s account is being processed, and is not affected.",
                "The limit is %(limit)s. %(num)s accounts are being processed, and are not affected.",
                now.attempts,
                limit=limit,
            ),
            button=_("Set the limit"),
            back=url_for("work.show"),
        )

    def perform(session: Session) -> Done:
        set_concurrency_limit(session, form.limit.data)
        if form.limit.data is None:
            return Done(_("The number of accounts processed at the same time is no longer limited."))
        return Done(_("At most %(limit)s accounts are processed at the same time.", limit=form.limit.data))

    return act(form, preview, perform)
