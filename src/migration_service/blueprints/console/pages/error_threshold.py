"""The error threshold of a batch: after how many errors it is paused."""

from uuid import UUID

from flask import Blueprint, url_for
from sqlalchemy.orm import Session
from werkzeug.wrappers import Response
from wtforms import IntegerField, StringField
from wtforms.validators import InputRequired, Optional

from migration_service.blueprints.console.access import batch_of
from migration_service.blueprints.console.acting import ActionForm, Done, Preview, act
from migration_service.blueprints.console.display import write_threshold
from migration_service.blueprints.console.languages import gettext as _
from migration_service.blueprints.console.languages import lazy_gettext as _l
from migration_service.blueprints.console.languages import write_number
from migration_service.services.batches.control import report_batch
from migration_service.services.batches.error_threshold_options import read_threshold
from migration_service.services.batches.error_thresholds import NO_THRESHOLD, set_threshold

blueprint = Blueprint("error_threshold", __name__, url_prefix="/batches/<uuid:batch_id>/brake")


class ErrorThresholdForm(ActionForm):
    """The error threshold."""

    stop_after_errors = StringField(
        _l("Pause after"),
        validators=[InputRequired()],
        description=_l("A number of failed lines (100), a percentage (5%), or off."),
    )
    stop_min_lines = IntegerField(
        _l("Lines before a percentage applies"), validators=[Optional()], description=_l("Empty: 200.")
    )
    stop_window_lines = IntegerField(
        _l("Only the last lines count"),
        validators=[Optional()],
        description=_l("Rounded up to whole chunks. Empty: all lines."),
    )
    stop_ignore_codes = StringField(
        _l("Codes that do not count"), description=_l("Separated by spaces. Empty: every code counts.")
    )
    stop_count_warnings = StringField(
        _l("Warnings that also count"),
        description=_l("Codes separated by spaces, such as ledger_missing. Empty: no warning counts."),
    )


@blueprint.route("/", methods=["GET", "POST"])
def change(batch_id: UUID) -> Response:
    """Set the error threshold of a batch, even while it is running."""
    form = ErrorThresholdForm()

    def preview(session: Session) -> Preview:
        threshold = report_batch(session, batch_of(session, batch_id)).brake
        now = _("The batch has no error threshold now.")
        if threshold:
            now = _(
                "Now it is paused when %(words)s. %(errors)s of %(lines)s lines have failed.",
                words=write_threshold(threshold),
                errors=write_number(threshold["errors"]),
                lines=write_number(threshold["lines"]),
            )
        return Preview(
            title=_("Error threshold of the batch"),
            sentence=now,
            button=_("Set the error threshold"),
            back=url_for("batches.show", batch_id=batch_id),
        )

    def perform(session: Session) -> Done:
        threshold = read_threshold(
            stop_after_errors=str(form.stop_after_errors.data).strip(),
            stop_min_lines=form.stop_min_lines.data,
            stop_window_lines=form.stop_window_lines.data,
            stop_ignore_codes=(form.stop_ignore_codes.data or "").split(),
            stop_count_warnings=(form.stop_count_warnings.data or "").split(),
        )
        set_threshold(session, batch_of(session, batch_id), threshold or NO_THRESHOLD)
        return Done(_("The error threshold of the batch is set."))

    return act(form, preview, perform)
