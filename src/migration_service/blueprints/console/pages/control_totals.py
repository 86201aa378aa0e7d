"""The control totals of a batch: its supplier's totals for the file."""

from typing import Any
from uuid import UUID

from flask import Blueprint, url_for
from sqlalchemy.orm import Session
from werkzeug.wrappers import Response
from wtforms import Field, TextAreaField
from wtforms.validators import InputRequired

from migration_payloads.schemas.json import encode_json, parse_json
from migration_service.blueprints.console.access import batch_of
from migration_service.blueprints.console.acting import ActionForm, Done, Facts, Preview, act
from migration_service.blueprints.console.display import measured
from migration_service.blueprints.console.languages import _, _l, ngettext
from migration_service.errors import ErrorItem, ParseError, RequestFailedValidationError
from migration_service.schemas.control_totals import read_control_totals
from migration_service.services.batches.intake.control_totals import (
    ControlTotals,
    report_control_totals,
    set_control_totals,
)

blueprint = Blueprint("control_totals", __name__, url_prefix="/batches/<uuid:batch_id>/control-totals")


class ControlTotalsForm(ActionForm):
    """The supplier's control totals."""

    totals = TextAreaField(
        _l("Control totals of the supplier"),
        validators=[InputRequired()],
        render_kw={"rows": 10, "spellcheck": "false", "maxlength": 20_000},
        description=_l(
            "As JSON. Totals that are left out are not compared. Take the totals from the source system "
            "rather than from the file, so that they reveal what is missing from the file."
        ),
    )

    def find_field(self, item: ErrorItem) -> Field:  # each of its errors is about the JSON
        """Return the only field."""
        return self.totals


@blueprint.route("/", methods=["GET", "POST"])
def give(batch_id: UUID) -> Response:
    """Set the control totals of a batch."""
    form = ControlTotalsForm()

    def preview(session: Session) -> Preview:
        report = report_control_totals(batch_of(session, batch_id))
        if form.totals.data is None and report.control_totals:
            form.totals.data = encode_json(report.control_totals).decode()
        return Preview(
            title=_("Control totals"),
            sentence=_("They are compared with all lines of the file, including refused ones."),
            button=_("Compare with the file"),
            back=url_for("batches.show", batch_id=batch_id),
            facts=_facts(report),
            is_empty=not report.totals,
        )

    def perform(session: Session) -> Done:
        report = set_control_totals(session, batch_of(session, batch_id), read_totals(form.totals.data or ""))
        if report.as_given:
            return Done(_("The file matches the control totals."))
        if not report.differing:
            return Done(_("The part of the file that could be read matches the control totals."))
        return Done(ngettext("%(num)s total differs.", "%(num)s totals differ.", report.differing))

    return act(form, preview, perform)


def read_totals(text: str) -> dict[str, Any]:
    """Return the control totals that were entered. Raise RequestFailedValidationError."""
    try:
        return read_control_totals(parse_json(text.encode()))
    except ParseError as error:
        raise RequestFailedValidationError(errors=error.errors) from error


def _facts(report: ControlTotals) -> Facts:
    """Return each total of the file, with the supplier's if it was given."""
    return tuple(
        (
            total.measure,
            _("%(file)s in the file", file=measured(total.file, total.measure))
            if total.given is None
            else _(
                "%(given)s given, %(file)s in the file",
                given=measured(total.given, total.measure),
                file=measured(total.file, total.measure),
            ),
        )
        for total in report.totals
    )
