"""Batches: whole books of accounts, from a file or from the pending accounts, processed by workers."""

from collections.abc import Callable
from functools import partial
from typing import Any
from uuid import UUID

from flask import Response, jsonify, url_for
from sqlalchemy.orm import Session

from migration_service import errors
from migration_service.blueprints import batch_upload
from migration_service.blueprints.description.error_catalogue import find_unknown_code
from migration_service.blueprints.description.openapi import answers_errors
from migration_service.blueprints.requests.body import document_parameters, query_arguments
from migration_service.blueprints.requests.description_headers import CSV, KEY, LINES, refer
from migration_service.blueprints.requests.idempotency import KEY_ERRORS, answer_with_effect, idempotent
from migration_service.blueprints.requests.interface import caller, make_blueprint, supplier_in_body
from migration_service.blueprints.requests.paging import answer_list
from migration_service.blueprints.requests.places import begin_answer, while_client_waits
from migration_service.blueprints.requests.resources import resources
from migration_service.blueprints.requests.streaming import stream, stream_lines
from migration_service.models import Batch
from migration_service.schemas import batches as schemas
from migration_service.schemas.error_threshold import ErrorThresholdArgumentsSchema
from migration_service.schemas.paging import list_arguments
from migration_service.services.batches import control as batches
from migration_service.services.batches import retry
from migration_service.services.batches.error_thresholds import NO_THRESHOLD, set_threshold
from migration_service.services.batches.results import line_results
from migration_service.services.batches.results import listing as results
from migration_service.states import LineStatus, StagingResult
from migration_service.tasks.batches import feed_batches

blueprint = make_blueprint(
    "batches", "batches", "Rehearse, migrate and retry whole books of accounts, or data for many accounts."
)

_RUNNING = dict.fromkeys(
    (
        "reason",
        "finished_at",
        "lines_removed_at",
        "runs_until",
        "next_try_at",
        "waits_for_vendors",
        "condition",
    )
)
_PROGRESS = schemas.BatchProgressAnswerSchema.example(**_RUNNING)
_BATCH = {name: _PROGRESS[name] for name in schemas.BatchAnswerSchema().fields}
_LINE_CSV = (
    "line_number,external_account_number,status,service_account_number,severity,code,path,detail,value\r\n"
    "4,10000004,IMPORTED,A-7KX2M9QD,,,,,\r\n"
)


def _find_filter_misfits(arguments: dict[str, Any]) -> list[errors.ErrorItem]:
    """Return the error of an unknown code, for a request that has others."""
    return find_unknown_code(arguments.get("code"))


@blueprint.post("/", endpoint="start_batch")
@blueprint.doc(requestBody=batch_upload.BODY)
@document_parameters(KEY)
@query_arguments(
    schemas.BatchArgumentsSchema(),
    hints={"dry_run": "For a dry run of a batch, use mode=dry-run."},
    find_misfits=batch_upload.find_order_misfits,
)
@blueprint.response(202, schemas.BatchProgressAnswerSchema, example=_PROGRESS)
@answers_errors(
    errors.ImportSupplierNotFoundInBodyError,
    errors.ImportSupplierPausedError,
    errors.ImportSupplierCompleteError,
    errors.OperationsTeamNotFoundError,
    errors.BatchFileError,
    errors.BatchFileFormatError,
    errors.BatchFileTooLargeError,
    errors.BatchTooManyLinesError,
    errors.BatchCompressionError,
    errors.TooManyUploadsError,
    errors.TooManyOpenBatchesError,
    errors.BatchStorageQuotaError,
    errors.StagedQuotaReachedError,
    *KEY_ERRORS,
)
@while_client_waits
def start(arguments: dict[str, Any]) -> Any:
    """Start a batch

    The file is stored only if all of it arrives, and is then processed. Each line has its own result, and an
    error in one line does not delay the others.
    """
    order = batch_upload.read_order(arguments)
    with resources().Session.begin() as session:
        supplier = supplier_in_body(session, arguments)
    # No connection is held while the body arrives.
    batch_id = batch_upload.take_in(supplier, order, lambda batch_id: begin_answer(202, _location(batch_id)))
    _feed()
    return jsonify(_progress(str(batch_id))), 202, {"Location": _location(batch_id)}


@blueprint.get("/")
@query_arguments(list_arguments("batches"))
@blueprint.response(200, schemas.BatchAnswerSchema(many=True), example=[_BATCH], headers=refer("Link"))
@answers_errors()
def list_batches(arguments: dict[str, Any]) -> Response:
    """List the organisation's batches, newest first

    The response is one page. A Link header (rel="next") leads to the next one.
    """
    return answer_list(arguments, results.list_batches, "batch_id", schemas.BatchAnswerSchema())


@blueprint.get("/<batch_id>/")
@blueprint.response(200, schemas.BatchProgressAnswerSchema, example=_PROGRESS)
@answers_errors(errors.BatchNotFoundError)
def get_batch(batch_id: str) -> Response:
    """Get the progress of a batch

    Includes counts of its lines by status and by error code, its rate, and the estimated time left.
    """
    return jsonify(_progress(batch_id))


@blueprint.get("/<batch_id>/results/", endpoint="get_batch_results")
@query_arguments(schemas.ResultArgumentsSchema(), find_misfits=_find_filter_misfits)
@blueprint.response(
    200,
    schemas.LineResultSchema,
    content_type="application/x-ndjson",
    example=schemas.LineResultSchema.example(service_account_number=None),
)
@blueprint.alt_response(200, schema=CSV, content_type="text/csv", example=_LINE_CSV)
@answers_errors(errors.BatchNotFoundError)
def get_results(arguments: dict[str, Any], batch_id: str) -> Response:
    """Get the result of each line, streamed

    NDJSON: line_number, external_account_number, status, service_account_number, errors, warnings,
    staging_result. Each error and warning has the value at its path. With `Accept: text/csv`, CSV: one row
    per error or warning, with its line, account, code, path and value, and one row for a line without any.
    With `code` or `path`, CSV has only those. Lines that have not been processed yet are PENDING. Results are
    kept for at least 30 days after the batch has ended.
    """
    status = LineStatus(arguments["status"]) if "status" in arguments else None
    staged = StagingResult(arguments["staging_result"]) if "staging_result" in arguments else None
    wanted = _filter(arguments, status=status, staging_result=staged)
    with resources().Session.begin() as session:
        batch = batches.get_batch(session, batch_id, organisation_id=caller().organisation_id)
    return stream_lines(lambda kind: line_results.stream_results(resources().Session, batch.id, kind, wanted))


@blueprint.get("/<batch_id>/failed-lines/")
@query_arguments(schemas.FailedLinesArgumentsSchema(), find_misfits=_find_filter_misfits)
@blueprint.response(200, LINES, content_type="application/x-ndjson", headers=refer("X-Lines-Left-Out"))
@answers_errors(errors.BatchNotFoundError, errors.BatchStateError)
def get_failed_lines(arguments: dict[str, Any], batch_id: str) -> Response:
    """Get the failed lines as they were sent

    NDJSON, streamed, to be corrected and sent as a new batch. Lines that were too long to keep, and lines
    that repeat an earlier account, are left out. `X-Lines-Left-Out` has their number.
    """
    wanted = _filter(arguments)
    with resources().Session.begin() as session:
        batch = batches.get_batch_with_lines(session, batch_id, organisation_id=caller().organisation_id)
        left_out = line_results.count_left_out(session, batch.id, wanted)
    pieces = line_results.stream_failed_lines(resources().Session, batch.id, wanted)
    response = stream(pieces, "application/x-ndjson; charset=utf-8")
    response.headers["X-Lines-Left-Out"] = str(left_out)
    return response


@blueprint.post("/<batch_id>/pause/", endpoint="pause_batch")
@blueprint.response(200, schemas.BatchProgressAnswerSchema, example=_PROGRESS | {"state": "PAUSED"})
@answers_errors(errors.BatchNotFoundError, errors.BatchStateError)
def pause(batch_id: str) -> Response:
    """Pause a batch

    No more lines are started until the batch is resumed. Workers finish the lines that they have.
    """
    return _change(batch_id, batches.pause_batch)


@blueprint.post("/<batch_id>/resume/", endpoint="resume_batch")
@blueprint.response(200, schemas.BatchProgressAnswerSchema, example=_PROGRESS)
@answers_errors(errors.BatchNotFoundError, errors.BatchStateError)
def resume(batch_id: str) -> Response:
    """Resume a batch

    The batch continues if it was paused, or stopped because its supplier was complete.
    """
    return _change(batch_id, batches.resume_batch, feed=True)


@blueprint.post("/<batch_id>/cancel/", endpoint="cancel_batch")
@blueprint.response(200, schemas.BatchProgressAnswerSchema, example=_PROGRESS | {"state": "CANCELLED"})
@answers_errors(errors.BatchNotFoundError, errors.BatchStateError)
def cancel(batch_id: str) -> Response:
    """Cancel a batch

    This is permanent: no more lines are started. Finished lines are kept.
    """
    return _change(batch_id, batches.cancel_batch, feed=True)


@blueprint.post("/<batch_id>/brake/", endpoint="set_batch_brake")
@query_arguments(ErrorThresholdArgumentsSchema(), find_misfits=batch_upload.find_threshold_misfits)
@blueprint.response(200, schemas.BatchProgressAnswerSchema, example=_PROGRESS)
@answers_errors(errors.BatchNotFoundError, errors.BatchStateError)
def change_error_threshold(arguments: dict[str, Any], batch_id: str) -> Response:
    """Set the error threshold of a batch

    The batch may be running. The new threshold replaces all parts of the old one, and is checked before more
    lines are started. Errors that were counted before still count.
    """
    threshold = batch_upload.read_threshold_arguments(arguments) or NO_THRESHOLD
    return _change(batch_id, partial(set_threshold, threshold=threshold))


@blueprint.post("/<batch_id>/retry-failed/", endpoint="retry_failed_lines")
@idempotent()
@query_arguments(schemas.RetryArgumentsSchema(), find_misfits=_find_filter_misfits)
@blueprint.response(200, schemas.RetryAnswerSchema, example={**_PROGRESS, "retried": 12, "left": 988})
@answers_errors(*KEY_ERRORS, errors.BatchNotFoundError, errors.BatchStateError)
@while_client_waits
def retry_failed(arguments: dict[str, Any], batch_id: str) -> Response:
    """Retry the FAILED lines that may succeed now

    These are lines that failed because of infrastructure or the state of their account, and lines whose rules
    or profile have changed since. Correct lines that failed because of their content, and send them as a new
    batch. With `code` or `path`, only lines with such an error or warning are retried, as in the results with
    this filter.
    """
    wanted = _filter(arguments)
    with resources().Session.begin() as session:
        batch = batches.get_batch(session, batch_id, organisation_id=caller().organisation_id)
        retry.require_retryable(session, batch)
        begin_answer()
        retried = retry.retry_failed(session, batch, wanted, everything=arguments["all"])
        counts = {"retried": retried.retried, "left": retried.left}
        answer = answer_with_effect(session, _report(session, batch) | counts, 200)
    _feed()
    return answer


def _filter(arguments: dict[str, Any], **others: Any) -> line_results.ResultFilter:
    """Return the filter in a query string. Raise RequestFailedValidationError if its code is unknown."""
    if unknown := find_unknown_code(arguments.get("code")):
        raise errors.RequestFailedValidationError(errors=unknown)
    return line_results.ResultFilter(code=arguments.get("code"), path=arguments.get("path"), **others)


def _change(batch_id: str, change: Callable[[Session, Batch], object], *, feed: bool = False) -> Response:
    """Change a batch, and return its progress. Give `feed` if chunks may have to be published."""
    with resources().Session.begin() as session:
        change(session, batches.get_batch(session, batch_id, organisation_id=caller().organisation_id))
    if feed:
        _feed()  # which ends a cancelled one, unless a worker has lines of it
    return jsonify(_progress(batch_id))


def _location(batch_id: UUID) -> str:
    return url_for("batches.get_batch", batch_id=batch_id)


def _progress(batch_id: str) -> dict[str, Any]:
    with resources().Session.begin() as session:
        batch = batches.get_batch(session, batch_id, organisation_id=caller().organisation_id)
        return _report(session, batch)


def _report(session: Session, batch: Batch) -> dict[str, Any]:
    report: dict[str, Any] = schemas.BatchProgressAnswerSchema().dump(batches.report_batch(session, batch))
    return report


def _feed() -> None:
    feed_batches(resources().celery, resources().Session)
