"""The request that starts a batch: its parameters, and its body as lines that are read as they arrive."""

from collections.abc import Iterator
from typing import Any

from flask import request
from werkzeug.exceptions import UnsupportedMediaType

from migration_service.blueprints.auth import caller
from migration_service.blueprints.examples import ACCOUNT
from migration_service.blueprints.idempotency import read_key
from migration_service.blueprints.resources import resources
from migration_service.errors import BatchFileError, ErrorItem, RequestFailedValidationError
from migration_service.schemas.json import encode_json
from migration_service.services.batches.ndjson import FileLimits, Line, read_blocks, read_lines
from migration_service.services.batches.upload import BatchOrder
from migration_service.states import BatchMode, BatchSource, Profile

#: In this order, because generated clients take the first, and send bytes for it.
_DESCRIBED_TYPES = ("application/octet-stream", "application/x-ndjson", "application/gzip")
_MEDIA_TYPES = (*_DESCRIBED_TYPES, "application/ndjson", "application/jsonl")

_EXAMPLE = encode_json(ACCOUNT).decode() + "\n"

#: For OpenAPI: the body.
BODY = {
    "required": False,
    "description": "NDJSON: one account payload per line. Plain or gzip, with or without "
    "`Content-Encoding: gzip`. Blank lines are ignored.",
    "content": {
        kind: {"schema": {"type": "string", "format": "binary"}, "example": _EXAMPLE}
        for kind in _DESCRIBED_TYPES
    },
}


def read_order(arguments: dict[str, Any]) -> BatchOrder:
    """Return what the request asks for. Raise RequestFailedValidationError, or 415 for another body."""
    mode, team = BatchMode(arguments["mode"]), arguments.get("operations_team_name")
    pending = arguments["source"] == BatchSource.PENDING
    key = read_key()
    profile = Profile(arguments["profile"]) if "profile" in arguments else None
    if profile is Profile.LENIENT and mode is not BatchMode.VALIDATE:
        detail = "Expected strict: a batch can only be stricter than the profile that the operator has set."
        raise RequestFailedValidationError(errors=[ErrorItem("invalid_choice", detail, "profile")])
    return BatchOrder(
        mode=mode,
        operations_team_name=team if mode.creates else None,
        lines=None if pending else _read_body(),
        api_key_id=caller().api_key_id,
        idempotency_key=key,
        name=arguments.get("name"),
        file_name=arguments.get("file_name"),
        profile=profile,
    )


def _read_body() -> Iterator[Line]:
    """Yield the lines of the request's body while they are read."""
    if request.mimetype and request.mimetype not in _MEDIA_TYPES:
        raise UnsupportedMediaType("The body must be NDJSON: send Content-Type application/x-ndjson.")
    if request.content_encoding not in (None, "", "identity", "gzip", "x-gzip"):
        raise UnsupportedMediaType("The body may be sent as it is, or with Content-Encoding: gzip.")
    settings = resources().settings
    request.max_content_length = settings.max_batch_bytes  # not the limit of the other endpoints
    limits = FileLimits(line=settings.max_body_bytes, total=settings.max_batch_bytes)
    return _refuse_json_string(read_lines(_whole_body(), limits))


def _refuse_json_string(lines: Iterator[Line]) -> Iterator[Line]:
    """Yield the lines. Raise BatchFileError if the first one is a JSON string.

    A client that turns every body into JSON sends the whole file as one string.
    """
    for place, line in enumerate(lines):
        if place == 0 and line.text is not None and line.text.startswith(b'"'):
            raise BatchFileError(
                "The file is one JSON string. Send its bytes as they are: one JSON object on each line."
            )
        yield line


def _whole_body() -> Iterator[bytes]:
    """Yield the blocks of the body. Raise BatchFileError if the client disconnected before its end.

    The web server does not report this if it knows the length, and half a file would count as a whole one.
    """
    missing = request.content_length
    for block in read_blocks(request.stream):
        if missing is not None:
            missing -= len(block)
        yield block
    if missing:
        raise BatchFileError("The upload is incomplete: fewer bytes arrived than Content-Length says.")
