"""Whether a supplier is ready for its next wave or for go-live, and the acceptance of warnings."""

from datetime import datetime

from flask import Blueprint, abort, render_template, request, url_for
from sqlalchemy.orm import Session
from werkzeug.wrappers import Response

from migration_service.blueprints.console.access import supplier_of
from migration_service.blueprints.console.acting import Done, Facts, Preview, ReasonForm, act
from migration_service.blueprints.console.counting import keep
from migration_service.blueprints.console.languages import _, _l
from migration_service.blueprints.readiness import look_around
from migration_service.blueprints.requests.resources import resources
from migration_service.services.readiness.checks import SAYS
from migration_service.services.readiness.report import Finding, Readiness, accept_warning, examine
from migration_service.states import CheckResult, ReadinessCheck, ReadyFor

blueprint = Blueprint("readiness", __name__, url_prefix="/suppliers/<code>/ready")

#: The checks, in words.
NAMES = {
    ReadinessCheck.TEAM_EXISTS: _l("Team"),
    ReadinessCheck.VENDORS_ANSWER: _l("Payment vendors"),
    ReadinessCheck.MAIL_HELD: _l("E-mails to customers"),
    ReadinessCheck.WINDOW_LONG_ENOUGH: _l("Window"),
    ReadinessCheck.REHEARSAL_CURRENT: _l("Rehearsal"),
    ReadinessCheck.CONTROL_TOTALS_EQUAL: _l("Control totals"),
    ReadinessCheck.NOTHING_OPEN: _l("Nothing open"),
    ReadinessCheck.DISK_HAS_ROOM: _l("Disk"),
    ReadinessCheck.BACKUP_RECENT: _l("Backup"),
    ReadinessCheck.FOUR_EYES: _l("Four eyes"),
}
RESULTS = {
    CheckResult.PASSED: _l("passed"),
    CheckResult.WARNING: _l("warning"),
    CheckResult.FAILED: _l("failed"),
}


@blueprint.get("/")
def show(code: str) -> str:
    """Show the checks, for the next wave or for go-live."""
    with resources().Session.begin() as session:
        found, counted_at = look(session, code, _asked())
    return render_template(
        "ready.html", code=code, found=found, counted_at=counted_at, names=NAMES, results=RESULTS, say=say
    )


@blueprint.route("/<named>/accept/", methods=["GET", "POST"])
def accept(code: str, named: str) -> Response:
    """Accept a warning with a reason."""
    form = ReasonForm()

    def preview(session: Session) -> Preview:
        found, _counted_at = look(session, code, _asked())
        finding = next((it for it in found.checks if it.check == named), None)
        if finding is None:
            abort(404)
        return Preview(
            title=_("Accept a warning about %(code)s", code=code),
            sentence=_("It stays accepted for as long as it says the same."),
            button=_("Accept"),
            back=url_for("readiness.show", code=code, ready_for=_asked()),
            is_empty=not finding.is_acceptable,
            facts=((str(NAMES[finding.check]), say(finding)), (_("What to do"), _(SAYS[finding.said][2]))),
        )

    def perform(session: Session) -> Done:
        found = check(session, code, _asked()).checks
        accept_warning(session, supplier_of(session, code), found, named, reason=str(form.reason.data))
        return Done(_("The warning is accepted."))

    return act(form, preview, perform)


def check(session: Session, code: str, ready_for: ReadyFor | None) -> Readiness:
    """Carry out the checks of a supplier that the operator may see."""
    return examine(session, supplier_of(session, code), look_around(), ready_for)


def look(session: Session, code: str, ready_for: ReadyFor | None) -> tuple[Readiness, datetime | None]:
    """Return the checks of a supplier for a page that only shows them, as `keep` does."""
    name = f"ready:{supplier_of(session, code).id}:{ready_for}"
    return keep(session, name, Readiness, lambda own: check(own, code, ready_for))


def say(finding: Finding) -> str:
    """Return what a check found, in the reader's language."""
    return _(SAYS[finding.said][1], **finding.values)


def list_facts(session: Session, code: str, ready_for: ReadyFor) -> Facts:
    """Return what is in the way of a wave, or of go-live, for the form that starts it."""
    found = [it for it in look(session, code, ready_for)[0].checks if it.is_in_the_way]
    facts = tuple((str(NAMES[it.check]), f"{RESULTS[it.result]}: {say(it)}") for it in found)
    return facts or ((_("Ready?"), _("Every check has passed, or its warning was accepted.")),)


def _asked() -> ReadyFor | None:
    return request.args.get("ready_for", type=ReadyFor)
