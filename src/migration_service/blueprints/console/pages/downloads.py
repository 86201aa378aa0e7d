"""Lines of a batch as files: the failed lines as they were sent, and the outcome of each line."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from uuid import UUID

from flask import Blueprint, Response, render_template

from migration_service.blueprints.console.access import batch_of
from migration_service.blueprints.console.filters import read_filter
from migration_service.blueprints.console.remedies import remedy_of
from migration_service.blueprints.requests.resources import resources
from migration_service.blueprints.requests.streaming import CONTENT_TYPES, stream, zip_files
from migration_service.db.cancelling import allow_minutes
from migration_service.formats import ResultFormat
from migration_service.services.audit.entries import AuditAction, record
from migration_service.services.batches.control import get_batch_with_lines, report_batch
from migration_service.services.batches.results.findings import count_codes
from migration_service.services.batches.results.line_results import (
    count_left_out,
    stream_failed_lines,
    stream_results,
)
from migration_service.states import LineStatus

blueprint = Blueprint("downloads", __name__, url_prefix="/batches/<uuid:batch_id>")


@blueprint.get("/results.csv")
def results(batch_id: UUID) -> Response:
    """Send the outcome of each line, with the path and the value of every error."""
    _note_reading(batch_id)
    pieces = stream_results(resources().Session, batch_id, ResultFormat.CSV, read_filter())
    return send_file(pieces, f"results-{batch_id}.csv")


@blueprint.get("/hand-back.zip")
def hand_back(batch_id: UUID) -> Response:
    """Send what a supplier needs to correct the failed lines: the lines, their errors, and a letter."""
    _note_reading(batch_id)
    sessions, wanted = resources().Session, replace(read_filter(), status=LineStatus.FAILED)

    def write_letter() -> Iterator[bytes]:
        with sessions.begin() as session:
            allow_minutes(session)
            text = render_template(
                "letter.txt",
                batch=report_batch(session, batch_of(session, batch_id)),
                codes=count_codes(session, batch_id, wanted),
                left_out=count_left_out(session, batch_id, wanted),
                remedy_of=remedy_of,
            )
        yield text.encode()

    files: dict[str, Iterable[bytes]] = {
        "letter.txt": write_letter(),
        "errors.csv": stream_results(sessions, batch_id, ResultFormat.CSV, wanted),
        "failed-lines.ndjson": stream_failed_lines(sessions, batch_id, wanted),
    }
    return send_file(zip_files(files), f"hand-back-{batch_id}.zip", "application/zip")


def _note_reading(batch_id: UUID) -> None:
    """Record in the audit that lines are read. Raise BatchStateError if they are no longer kept."""
    with resources().Session.begin() as session:
        owner = batch_of(session, batch_id).organisation_id
        get_batch_with_lines(session, str(batch_id), organisation_id=None)
        record(session, AuditAction.BATCH_RESULTS_READ, "batch", batch_id, organisation_id=owner)


def send_file(pieces: Iterable[bytes], name: str, kind: str = CONTENT_TYPES[ResultFormat.CSV]) -> Response:
    """Send these pieces as a file with a content type. The browser saves it under this name."""
    response = stream(pieces, kind if kind == "application/zip" else f"{kind}; charset=utf-8")
    response.headers.set("Content-Disposition", "attachment", filename=name)
    return response
