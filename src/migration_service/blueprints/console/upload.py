"""Uploading a file of any kind. It is taken in while it arrives, as the interface does it."""

from uuid import UUID, uuid4

from flask import Blueprint, flash, make_response, redirect, render_template, request, url_for
from flask_wtf.csrf import validate_csrf
from werkzeug.exceptions import BadRequest
from werkzeug.wrappers import Response
from wtforms import ValidationError

from migration_service.blueprints.batch_upload import intake_limits
from migration_service.blueprints.console.access import supplier_of
from migration_service.blueprints.console.languages import gettext as _
from migration_service.blueprints.console.multipart import FormWithFile
from migration_service.blueprints.console.ordering import (
    KINDS,
    STEPS,
    Lines,
    order_batch,
    team_choices,
)
from migration_service.blueprints.errors import status_of
from migration_service.blueprints.resources import resources
from migration_service.errors import BatchQuotaError, InvalidError, ServiceError, TooManyUploadsError
from migration_service.services.batches.intake import take_in_batch
from migration_service.services.setup.suppliers import KnownSupplier
from migration_service.states import BatchKind, BatchMode
from migration_service.tasks.batches import feed_batches

blueprint = Blueprint("upload", __name__, url_prefix="/suppliers")

#: Bytes of a form around its file.
_MORE = 1_000_000
#: What a batch of transactions does unless its box is cleared.
_OPTIONS = ("check_previously_added", "force_add_to_current_statement")


@blueprint.get("/<code>/upload/")
def show(code: str) -> Response:
    """The form to upload a file."""
    return _page(_supplier(code))


@blueprint.post("/<code>/upload/")
def send(code: str) -> Response:
    """Take in a file, and start a batch with it."""
    supplier = _supplier(code)
    shared = resources()
    limits = intake_limits(shared.settings)
    request.max_content_length = limits.file.total + _MORE
    boundary = request.mimetype_params.get("boundary")
    if request.mimetype != "multipart/form-data" or not boundary:
        raise BadRequest(_("Expected a form with a file."))
    form = FormWithFile(request.stream, boundary)
    try:
        _check_token(form.fields.get("csrf_token"))
        mode, token = BatchMode(form.fields["step"]), UUID(form.fields["form_token"])
        lines = _read_lines(form)
    except (KeyError, ValueError, ValidationError):
        return _page(supplier, _("The page has expired. Choose the file again."), 400)
    if not form.file_name:
        return _page(supplier, _("Choose a file."), 400)
    try:
        order = order_batch(
            mode,
            lines,
            form.fields.get("team"),
            token=str(token),
        )
        batch_id = take_in_batch(
            shared.Session, supplier, order, form.blocks(), redis=shared.redis, limits=limits
        )
    except (InvalidError, BatchQuotaError, TooManyUploadsError) as error:
        return _page(supplier, _describe(error), status_of(type(error)))
    feed_batches(shared.celery, shared.Session)
    flash(_("The file has arrived, and its batch has begun."), "done")
    location = url_for("batches.show", batch_id=batch_id)
    # The script shows the progress, and then goes there itself.
    return Response(status=201, headers={"Location": location}) if _is_script() else redirect(location, 303)


def _read_lines(form: FormWithFile) -> Lines:
    kind, options = BatchKind(form.fields.get("kind", BatchKind.ACCOUNTS)), {}
    if kind is BatchKind.TRANSACTIONS:
        options = {name: False for name in _OPTIONS if name not in form.fields}
    name, file_name = form.fields.get("name", "").strip()[:128], (form.file_name or "")[:255]
    return Lines(kind, options, name, file_name)


def _is_script() -> bool:
    return "X-Upload" in request.headers


def _check_token(token: str | None) -> None:
    validate_csrf(token)


def _supplier(code: str) -> KnownSupplier:
    with resources().Session.begin() as session:
        return supplier_of(session, code)


def _describe(error: ServiceError) -> str:
    details = [item.detail for item in error.errors] or [error.detail]
    return " ".join(details)


def _page(supplier: KnownSupplier, error: str | None = None, status: int = 200) -> Response:
    with resources().Session.begin() as session:
        teams = team_choices(session, supplier.organisation_id)
    text = render_template(
        "upload.html",
        supplier=supplier,
        teams=teams,
        kinds=KINDS,
        steps=STEPS,
        error=error,
        form_token=str(uuid4()),
    )
    return make_response(text, status)
