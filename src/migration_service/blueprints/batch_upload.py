"""The request that starts a batch: its parameters, and its body, which is read in blocks as it arrives."""

from collections.abc import Iterator, Mapping
from typing import Any
from uuid import UUID

from flask import request
from werkzeug.exceptions import UnsupportedMediaType

from migration_payloads.files.ndjson import FileLimits, read_blocks
from migration_payloads.profile import Profile
from migration_payloads.schemas.json import encode_json
from migration_service.blueprints.description.examples import ACCOUNT
from migration_service.blueprints.requests.body import require_length
from migration_service.blueprints.requests.holding import consume_body
from migration_service.blueprints.requests.idempotency import find_key_fault, read_key
from migration_service.blueprints.requests.interface import caller, find_unknown_names
from migration_service.blueprints.requests.places import step_aside
from migration_service.blueprints.requests.resources import resources
from migration_service.config import Settings
from migration_service.errors import BatchFileError, ErrorItem, RequestFailedValidationError
from migration_service.services.access.scopes import Scope, require_scope
from migration_service.services.batches.error_thresholds import ErrorThreshold, read_threshold
from migration_service.services.batches.intake.options import (
    INCLUDE_OLDER_VERSIONS,
    REPLACE_DIFFERING,
    BatchOrder,
)
from migration_service.services.batches.intake.quotas import BatchQuotas
from migration_service.services.batches.intake.storing import IntakeLimits, store_batch, take_in_batch
from migration_service.services.batches.intake.upload import OnAccepted
from migration_service.services.setup.suppliers import KnownSupplier
from migration_service.states import BatchKind, BatchMode, BatchSource

#: Generated clients use the first type, and send bytes for it.
_DESCRIBED_TYPES = ("application/octet-stream", "application/x-ndjson", "application/gzip")
_MEDIA_TYPES = (*_DESCRIBED_TYPES, "application/ndjson", "application/jsonl")

_EXAMPLE = encode_json(ACCOUNT).decode() + "\n"

#: Arguments of the single endpoint for transactions, and the one for pending accounts.
_OPTIONS = ("check_previously_added", "force_add_to_current_statement", INCLUDE_OLDER_VERSIONS)

#: For OpenAPI: the body.
BODY = {
    "description": "NDJSON: one body of the single endpoint per line. Plain or gzip, with or without "
    "`Content-Encoding: gzip`. Blank lines are ignored.",
    "content": {
        kind: {"schema": {"type": "string", "format": "binary"}, "example": _EXAMPLE}
        for kind in _DESCRIBED_TYPES
    },
}


def find_order_misfits(arguments: Mapping[str, Any]) -> list[ErrorItem]:
    """Return the errors of the valid parameters of a request that has invalid ones."""
    return [*_find_misfits(arguments), *find_unknown_names(arguments)]


def _find_misfits(arguments: Mapping[str, Any]) -> list[ErrorItem]:
    errors = find_key_fault()
    if arguments.get("profile") == Profile.LENIENT and arguments.get("mode") != BatchMode.VALIDATE:
        detail = "Expected strict: a batch can only be stricter than the profile that the operator has set."
        errors.append(ErrorItem("invalid_choice", detail, "profile"))
    return [*errors, *find_threshold_misfits(arguments)]


def find_threshold_misfits(arguments: Mapping[str, Any]) -> list[ErrorItem]:
    """Return the errors of the valid parameters of a threshold in a request that has invalid ones."""
    try:
        read_threshold_arguments(arguments)
    except RequestFailedValidationError as error:
        return error.errors
    return []


def read_order(arguments: dict[str, Any]) -> BatchOrder:
    """Return the requested batch. Raise RequestFailedValidationError if its parts do not fit together."""
    if _find_misfits(arguments):
        raise RequestFailedValidationError(errors=find_order_misfits(arguments))
    mode, team = BatchMode(arguments["mode"]), arguments.get("operations_team_name")
    kind = BatchKind(arguments["kind"])
    return BatchOrder(
        mode=mode,
        kind=kind,
        options={name: arguments[name] for name in _OPTIONS if name in arguments} | _read_replace(arguments),
        operations_team_name=None if kind is BatchKind.ACCOUNTS and not mode.creates else team,
        source=BatchSource(arguments["source"]),
        api_key_id=caller().api_key_id,
        idempotency_key=read_key(),
        name=arguments.get("name"),
        file_name=arguments.get("file_name"),
        profile=Profile(arguments["profile"]) if "profile" in arguments else None,
        extracted_at=arguments.get("extracted_at"),
        error_threshold=read_threshold_arguments(arguments),
    )


def _read_replace(arguments: Mapping[str, Any]) -> dict[str, bool]:
    """Return the option to replace accounts. Raise PermissionDeniedError if the key may not."""
    if "replace" not in arguments:
        return {}
    require_scope(caller().scopes, [Scope.REPLACE])
    return {REPLACE_DIFFERING: True}


def read_threshold_arguments(arguments: Mapping[str, Any]) -> ErrorThreshold | None:
    """Return the error threshold in the query string, or None. Raise RequestFailedValidationError."""
    names = ("stop_after_errors", "stop_min_lines", "stop_window_lines")
    given = {name: arguments[name] for name in names if name in arguments}
    for name in ("stop_ignore_codes", "stop_count_warnings"):
        if name in arguments:
            given[name] = [code.strip() for code in arguments[name].split(",")]
    return read_threshold(**given)


def take_in(supplier: KnownSupplier, order: BatchOrder, on_accepted: OnAccepted) -> UUID:
    """Store the requested batch and return its id, which `on_accepted` is told before its lines are stored.

    Raise the errors of `take_in_batch`, StagedQuotaReachedError, and the exceptions of 415 and 413 for a body
    of the wrong type or size.
    """
    shared = resources()
    limits = intake_limits(shared.settings)
    if order.mode is BatchMode.STAGE:
        shared.staged_quota.require_room(supplier.organisation_id)
    if order.source is BatchSource.PENDING:
        _refuse_file()
        return store_batch(shared.Session, supplier, order, limits, on_accepted)
    if request.mimetype and request.mimetype not in _MEDIA_TYPES:
        raise UnsupportedMediaType("The body must be NDJSON: send Content-Type application/x-ndjson.")
    blocks, redis = read_file(limits), shared.redis
    return take_in_batch(
        shared.Session, supplier, order, blocks, redis=redis, limits=limits, on_accepted=on_accepted
    )


def intake_limits(settings: Settings) -> IntakeLimits:
    """Return the bounds of an upload."""
    return IntakeLimits(
        file=FileLimits(
            line=settings.max_body_bytes,
            total=settings.max_batch_bytes,
            lines=settings.max_batch_lines,
            ratio=settings.max_batch_ratio,
        ),
        quotas=BatchQuotas(settings.max_open_batches, settings.max_batch_storage_bytes),
        uploads=settings.max_uploads,
        folder=settings.upload_folder,
    )


def _refuse_file() -> None:
    """Raise RequestFailedValidationError if the request has a body, because its lines would be ignored."""
    if request.content_length or request.stream.read(1):
        detail = "With source=pending the body is not read. Leave out the body or source."
        raise RequestFailedValidationError(errors=[ErrorItem("invalid", detail, "source")])


def read_file(limits: IntakeLimits) -> Iterator[bytes]:
    """Yield the blocks of the body, which is a file. Raise the exceptions of 411, 413 and 415."""
    require_length()
    # Not the limit of the other endpoints.
    request.max_content_length = limits.file.total
    if request.content_encoding not in (None, "", "identity", "gzip", "x-gzip"):
        raise UnsupportedMediaType("The body may be sent as it is, or with Content-Encoding: gzip.")
    return _whole_body()


def _whole_body() -> Iterator[bytes]:
    """Yield the blocks of the body. Raise BatchFileError if the client disconnected too early.

    The web server does not report this, and half a file would look complete.
    """
    step_aside()
    consume_body()
    missing = request.content_length or 0
    for block in read_blocks(request.stream):
        missing -= len(block)
        yield block
    if missing:
        raise BatchFileError("The upload is incomplete: fewer bytes arrived than Content-Length says.")
