"""Upload of a file of any kind. It is stored while it arrives, as the interface does it."""

from dataclasses import replace
from typing import Any
from uuid import UUID, uuid4

import wtforms
from flask import Blueprint, flash, make_response, redirect, render_template, request, url_for
from flask_wtf.csrf import validate_csrf
from werkzeug.datastructures import MultiDict
from werkzeug.exceptions import BadRequest
from werkzeug.wrappers import Response

from migration_service import errors
from migration_service.blueprints.batch_upload import intake_limits
from migration_service.blueprints.console import ordering
from migration_service.blueprints.console.access import supplier_of
from migration_service.blueprints.console.acting import ActionForm
from migration_service.blueprints.console.faults import Fault, tell
from migration_service.blueprints.console.languages import _, _l
from migration_service.blueprints.console.multipart import FormWithFile
from migration_service.blueprints.console.pages.control_totals import read_totals
from migration_service.blueprints.requests.errors import status_of
from migration_service.blueprints.requests.holding import consume_body
from migration_service.blueprints.requests.places import begin_answer
from migration_service.blueprints.requests.resources import resources
from migration_service.services.batches.intake.options import REPLACE_DIFFERING
from migration_service.services.batches.intake.storing import take_in_batch
from migration_service.services.setup.suppliers import KnownSupplier
from migration_service.states import BatchKind, BatchMode
from migration_service.tasks.batches import feed_batches

blueprint = Blueprint("upload", __name__, url_prefix="/suppliers")

#: The bytes of a form besides its file.
_MORE = 1_000_000
_LONGEST_NAME = 128
#: The default options of a batch of transactions. Clearing a box turns one off.
_OPTIONS = ("check_previously_added", "force_add_to_current_statement")


class UploadForm(ActionForm):
    """A file, the kind of its lines, and what to do with them."""

    kind = wtforms.SelectField(
        _l("What the lines are"),
        description=_l(
            "Everything but accounts is added to accounts that exist, or that an import is creating."
        ),
    )
    step = wtforms.RadioField(_l("What to do with it"), default=BatchMode.VALIDATE.value)
    team = wtforms.SelectField(
        _l("Operations team"), description=_l("Created accounts are linked to it. Other kinds have none.")
    )
    check_previously_added = wtforms.BooleanField(_l("Skip those that were added before"), default=True)
    force_add_to_current_statement = wtforms.BooleanField(
        _l("Move dates that are outside the open period into it"), default=True
    )
    replace = wtforms.BooleanField(
        _l("Replace accounts that exist and differ"),
        description=_l("They keep their number, and what was added to them. A dry run shows which."),
    )
    name = wtforms.StringField(
        _l("Name of the batch"),
        description=_l("Empty: the name of the file."),
        render_kw={"maxlength": _LONGEST_NAME},
    )
    control_totals = wtforms.TextAreaField(
        _l("Control totals of the supplier"),
        description=_l("For accounts, as JSON. Empty: not given. They can be given later, too."),
        render_kw={"rows": 4, "spellcheck": "false", "maxlength": 20_000},
    )
    file = wtforms.FileField(_l("File"), render_kw={"required": True})

    def find_field(self, item: errors.ErrorItem) -> wtforms.Field | None:
        """Return the field of an error. The interface has other names for some fields."""
        names = {"mode": self.step, "operations_team_name": self.team, "control_totals": self.control_totals}
        return names.get((item.attr or "").partition(".")[0]) or super().find_field(item)


@blueprint.get("/<code>/upload/")
def show(code: str) -> Response:
    """Show the form to upload a file."""
    return _page(_supplier(code), UploadForm())


@blueprint.post("/<code>/upload/")
def send(code: str) -> Response:
    """Take in a file, and start a batch with it."""
    supplier = _supplier(code)
    shared = resources()
    limits = intake_limits(shared.settings)
    is_script = "X-Upload" in request.headers
    request.max_content_length = limits.file.total + _MORE
    boundary = request.mimetype_params.get("boundary")
    if request.mimetype != "multipart/form-data" or not boundary:
        raise BadRequest(_("Expected a form with a file."))
    consume_body()
    sent = FormWithFile(request.stream, boundary)
    form = UploadForm(MultiDict(sent.fields))
    form.form_token.data = str(uuid4())
    try:
        validate_csrf(sent.fields.get("csrf_token"))
        mode, token = BatchMode(sent.fields["step"]), UUID(sent.fields["form_token"])
        kind, values = _read_lines(sent)
    except (KeyError, ValueError, wtforms.ValidationError):
        return _fail(supplier, form, _("The page has expired. Choose the file again."))
    if not sent.file_name:
        return _fail(supplier, form, _("Choose a file."))
    try:
        values["control_totals"] = _read_totals(sent.fields.get("control_totals", ""))
        order = ordering.order_batch(mode, kind, sent.fields.get("team"), token=str(token), **values)
        batch_id = take_in_batch(
            shared.Session,
            supplier,
            order,
            sent.blocks(),
            redis=shared.redis,
            limits=limits,
            on_accepted=lambda batch_id: begin_answer(
                *((201, _location(batch_id)) if is_script else (200, None))
            ),
        )
    except errors.BatchFileError as error:
        return _fail(supplier, form, *map(tell, error.errors), status=status_of(type(error)))
    except (errors.InvalidError, errors.BatchQuotaError, errors.TooManyUploadsError) as error:
        if isinstance(error, errors.IdempotencyKeyReusedError):  # the form was sent before, with another file
            error = errors.InvalidError(_("The page has expired. Choose the file again."))
        return _page(supplier, form, form.take(error), status_of(type(error)))
    feed_batches(shared.celery, shared.Session)
    flash(_("The file has arrived, and its batch has started."), "done")
    if is_script:  # which shows the progress, and then opens the page itself
        return Response(status=201, headers={"Location": _location(batch_id)})
    return redirect(_location(batch_id), 303)


def _location(batch_id: UUID) -> str:
    return url_for("batches.show", batch_id=batch_id)


def _read_lines(sent: FormWithFile) -> tuple[BatchKind, dict[str, Any]]:
    """Return the kind of the lines, and the options and names of their batch. Raise ValueError."""
    kind, options = BatchKind(sent.fields.get("kind", BatchKind.ACCOUNTS)), {}
    if kind is BatchKind.TRANSACTIONS:
        options = {name: False for name in _OPTIONS if name not in sent.fields}
    elif kind is BatchKind.ACCOUNTS and "replace" in sent.fields:
        options = {REPLACE_DIFFERING: True}
    name, file_name = sent.fields.get("name", "").strip()[:_LONGEST_NAME], (sent.file_name or "")[:255]
    return kind, {"options": options, "name": name or None, "file_name": file_name or None}


def _read_totals(text: str) -> dict[str, Any] | None:
    """Return the control totals of the form, or None. Raise RequestFailedValidationError at their field."""
    try:
        return read_totals(text) if text.strip() else None
    except errors.RequestFailedValidationError as error:
        items = [replace(it, attr=f"control_totals.{it.attr or ''}".rstrip(".")) for it in error.errors]
        raise errors.RequestFailedValidationError(errors=items) from error


def _supplier(code: str) -> KnownSupplier:
    with resources().Session.begin() as session:
        return supplier_of(session, code)


def _fail(supplier: KnownSupplier, form: UploadForm, *texts: str, status: int = 400) -> Response:
    form.file.errors = texts
    return _page(supplier, form, status=status)


def _page(
    supplier: KnownSupplier, form: UploadForm, others: list[Fault] | None = None, status: int = 200
) -> Response:
    with resources().Session.begin() as session:
        form.team.choices = ordering.team_choices(session, supplier.organisation_id, supplier.id)
    form.kind.choices = [(kind.value, f"{_(title)} ({kind})") for kind, title in ordering.KINDS.items()]
    form.step.choices = [(mode.value, _(step.title)) for mode, step in ordering.STEPS.items()]
    faults = [*form.list_faults(), *(others or [])]
    return make_response(render_template("upload.html", supplier=supplier, form=form, faults=faults), status)
