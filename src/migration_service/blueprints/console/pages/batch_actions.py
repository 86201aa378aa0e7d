"""Forms to pause, resume, cancel and retry a batch, to set its threshold, and for the next step."""

from dataclasses import replace
from typing import Any
from uuid import UUID

from flask import Blueprint, request, url_for
from sqlalchemy.orm import Session
from werkzeug.wrappers import Response
from wtforms import IntegerField, SelectField, StringField
from wtforms.validators import InputRequired, Optional

from migration_service.blueprints.batch_upload import intake_limits
from migration_service.blueprints.console import acting, ordering
from migration_service.blueprints.console.access import batch_of
from migration_service.blueprints.console.counting import look_at_retryable
from migration_service.blueprints.console.display import name_batch, write_threshold
from migration_service.blueprints.console.filters import read_filter
from migration_service.blueprints.console.languages import _, _l, mark, mark_plural, ngettext, write_number
from migration_service.blueprints.requests.resources import resources
from migration_service.services.batches import control
from migration_service.services.batches.error_thresholds import NO_THRESHOLD, read_threshold, set_threshold
from migration_service.services.batches.intake.storing import repeat_batch
from migration_service.services.batches.results.counts import count_open
from migration_service.services.batches.results.line_results import ResultFilter
from migration_service.services.batches.retry import retry_failed
from migration_service.services.setup.suppliers import get_import_supplier_by_id
from migration_service.states import BatchKind, BatchMode

blueprint = Blueprint("batch_actions", __name__, url_prefix="/batches/<uuid:batch_id>")


class ErrorThresholdForm(acting.ActionForm):
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


def _say_threshold(batch: control.BatchReport) -> str:
    if not batch.brake:
        return mark("The batch has no error threshold now.")
    return mark("Now it is paused when %(words)s. %(errors)s of %(lines)s lines have failed.")


def _write_values(batch: control.BatchReport) -> dict[str, str]:
    brake = batch.brake or {}
    numbers = {name: write_number(brake.get(name, 0)) for name in ("errors", "lines")}
    return {"name": name_batch(batch), "words": write_threshold(brake) if brake else "", **numbers}


def _set_threshold(session: Session, batch_id: UUID, **given: Any) -> None:
    for name in ("stop_ignore_codes", "stop_count_warnings"):
        given[name] = given[name].split()
    given["stop_after_errors"] = given["stop_after_errors"].strip()
    set_threshold(session, batch_of(session, batch_id), read_threshold(**given) or NO_THRESHOLD)


_ACTS = [
    acting.Act[control.BatchReport](
        name="pause",
        title=mark("Pause the batch: %(name)s"),
        sentence=mark_plural(
            "%(num)s remaining line will wait until the batch is resumed.",
            "%(num)s remaining lines will wait until the batch is resumed.",
        ),
        number=lambda batch: count_open(batch.counts),
        button=mark("Pause"),
        done=mark("The batch is paused."),
        do=lambda session, batch_id: control.pause_batch(session, batch_of(session, batch_id)),
    ),
    acting.Act[control.BatchReport](
        name="resume",
        title=mark("Resume the batch: %(name)s"),
        sentence=mark_plural(
            "%(num)s remaining line will be processed.", "%(num)s remaining lines will be processed."
        ),
        number=lambda batch: count_open(batch.counts),
        button=mark("Resume"),
        done=mark("The batch continues."),
        do=lambda session, batch_id: control.resume_batch(session, batch_of(session, batch_id)),
    ),
    acting.Act[control.BatchReport](
        name="cancel",
        title=mark("Cancel the batch: %(name)s"),
        sentence=mark_plural(
            "%(num)s line will never be processed. Finished lines are kept. This is permanent.",
            "%(num)s lines will never be processed. Finished lines are kept. This is permanent.",
        ),
        number=lambda batch: count_open(batch.counts),
        button=mark("Cancel the batch permanently"),
        done=mark("The batch is cancelled."),
        do=lambda session, batch_id: control.cancel_batch(session, batch_of(session, batch_id)),
        is_dangerous=True,
    ),
    # Even while the batch runs.
    acting.Act[control.BatchReport](
        name="change_threshold",
        form=ErrorThresholdForm,
        title=mark("Error threshold of the batch"),
        sentence=_say_threshold,
        button=mark("Set the error threshold"),
        done=mark("The error threshold of the batch is set."),
        do=_set_threshold,
    ),
]


def _back(batch_id: UUID) -> str:
    return url_for("batches.show", batch_id=batch_id)


acting.add_acts(
    blueprint,
    "/",
    _ACTS,
    show=lambda session, batch_id: control.report_batch(session, batch_of(session, batch_id)),
    back=_back,
    values=_write_values,
    afterwards=[acting.feed_workers],
)


@blueprint.route("/retry/", methods=["GET", "POST"])
def retry(batch_id: UUID) -> Response:
    """Retry failed lines that may succeed now: all, those with a certain code and path, or one line."""
    everything = "everything" in request.args
    wanted = replace(read_filter(), status=None)  # only failed lines are retried

    def preview(session: Session) -> acting.Preview:
        batch = batch_of(session, batch_id)
        found = look_at_retryable(session, batch, wanted)
        lines = found.everything if everything else found.may_pass
        left = found.everything - lines
        facts: list[tuple[str, Any]] = [(_("Code"), wanted.code), (_("Path"), wanted.path)]
        facts.append((_("Line"), wanted.line))
        facts.append((_("Failed because of their content, to be corrected and sent again"), left))
        return acting.Preview(
            title=_("Retry failed lines"),
            sentence=ngettext(
                "%(num)s line will be retried, unchanged.", "%(num)s lines will be retried, unchanged.", lines
            )
            if everything
            else ngettext(
                "%(num)s line that may succeed now will be retried.",
                "%(num)s lines that may succeed now will be retried.",
                lines,
            ),
            button=ngettext("Retry %(num)s line", "Retry %(num)s lines", lines),
            back=_back_to_filter(batch_id, wanted),
            is_empty=not lines,
            facts=tuple((name, value) for name, value in facts if value is not None),
            other=_retry_everything(batch_id, wanted, left) if left else None,
        )

    def perform(session: Session) -> acting.Done:
        found = retry_failed(session, batch_of(session, batch_id), wanted, everything=everything)
        done = ngettext("%(num)s line is pending again.", "%(num)s lines are pending again.", found.retried)
        # The page of a code may be empty now. The page of a line is not.
        return acting.Done(done, None if wanted.line is not None else _back(batch_id))

    return acting.act(acting.ActionForm(), preview, perform, afterwards=[acting.feed_workers])


def _retry_everything(batch_id: UUID, wanted: ResultFilter, left: int) -> acting.Link:
    """Return the link to the form that also retries lines that failed because of their content."""
    location = url_for(
        "batch_actions.retry",
        batch_id=batch_id,
        everything=1,
        code=wanted.code,
        path=wanted.path,
        line=wanted.line,
    )
    return acting.Link(
        location,
        ngettext(
            "Also retry %(num)s line that failed because of its content, unchanged",
            "Also retry %(num)s lines that failed because of their content, unchanged",
            left,
        ),
    )


def _back_to_filter(batch_id: UUID, wanted: ResultFilter) -> str:
    if wanted.line is not None:
        return url_for("findings.show_line", batch_id=batch_id, line_number=wanted.line)
    if wanted.code is None:
        return _back(batch_id)
    return url_for("findings.show_code", batch_id=batch_id, code=wanted.code, path=wanted.path)


class RepeatForm(acting.ActionForm):
    """The next step for the lines, and the operations team."""

    team = SelectField(_l("Operations team"))


@blueprint.route("/repeat/<any(stage, import, 'dry-run'):mode>/", methods=["GET", "POST"])
def repeat(batch_id: UUID, mode: str) -> Response:
    """Start a batch with the same lines: rehearse checked lines, import rehearsed lines."""
    wanted = BatchMode(mode)
    form = RepeatForm()
    with resources().Session.begin() as session:
        batch = batch_of(session, batch_id)
        if BatchKind(batch.kind).is_added_data:
            del form.team
        else:
            form.team.choices = ordering.team_choices(
                session, batch.organisation_id, batch.import_supplier_id
            )

    def preview(session: Session) -> acting.Preview:
        batch = batch_of(session, batch_id)
        return acting.Preview(
            title=_(ordering.STEPS[wanted].title),
            sentence=ngettext(*ordering.sentences_of(wanted, BatchKind(batch.kind)), batch.lines),
            button=_(ordering.STEPS[wanted].title),
            back=_back(batch_id),
        )

    started: list[UUID] = []

    def start() -> None:
        # It reads and stores piece by piece. The token of the form is the key of the batch.
        with resources().Session.begin() as session:
            batch = batch_of(session, batch_id)
            supplier = get_import_supplier_by_id(session, batch.import_supplier_id)
        team = form.team.data if form.team is not None else None
        order = ordering.order_batch(
            wanted,
            BatchKind(batch.kind),
            team,
            token=str(form.form_token.data),
            options=dict(batch.options),
            name=batch.name,
            file_name=batch.file_name,
        )
        shared, limits = resources(), intake_limits(resources().settings)
        started.append(
            repeat_batch(shared.Session, supplier, batch_id, order, redis=shared.redis, limits=limits)
        )

    def perform(_session: Session) -> acting.Done:
        return acting.Done(_("The batch has started."), url_for("batches.show", batch_id=started[-1]))

    return acting.act(form, preview, perform, afterwards=[acting.feed_workers], prepare=start)
