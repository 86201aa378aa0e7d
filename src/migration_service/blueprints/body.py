"""Reads request bodies and query strings, reports every error at once, and describes them in OpenAPI."""

import zlib
from collections.abc import Callable
from functools import wraps
from typing import Any

from flask import request
from flask_smorest import Blueprint
from marshmallow import Schema
from werkzeug.exceptions import LengthRequired, RequestEntityTooLarge, UnsupportedMediaType

from migration_service.blueprints.describing import View, only_describe
from migration_service.errors import ErrorItem, ParseError, RequestFailedValidationError
from migration_service.schemas.base import load, suggest
from migration_service.schemas.json import parse_json


def read_json() -> Any:
    """Return the JSON value of the request's body.

    Raise ParseError if it is not JSON, and the exceptions of `read_text`.
    """
    return parse_json(read_text())


def read_text() -> bytes:
    """Return the request's body, which should be JSON. Raise the exceptions of 411, 413 and 415."""
    if request.mimetype and not (request.is_json or request.mimetype == "text/json"):
        raise UnsupportedMediaType("The body must be JSON: send Content-Type application/json.")
    if request.content_encoding not in (None, "", "identity", "gzip", "x-gzip"):
        raise UnsupportedMediaType("The body may be sent as it is, or with Content-Encoding: gzip.")
    data = _read_body()
    if request.content_encoding in ("gzip", "x-gzip"):
        data = _decompress(data)
    return data


def _read_body() -> bytes:
    if request.content_length is None and not request.environ.get("wsgi.input_terminated"):
        raise LengthRequired("Send the body with Content-Length, or with Transfer-Encoding: chunked.")
    try:
        data = request.get_data(cache=False)
    except RequestEntityTooLarge:
        raise too_large() from None
    limit = request.max_content_length
    if limit is not None and request.content_length is None and len(data) >= limit:
        # A chunked body is cut at the limit without an error.
        raise too_large()
    return data


def _decompress(data: bytes) -> bytes:
    """Return decompressed gzip data, never more than a body may have."""
    limit = request.max_content_length or 0
    member = zlib.decompressobj(zlib.MAX_WBITS + 16)
    try:
        plain = member.decompress(data, limit + 1 if limit else 0)
    except zlib.error as error:
        raise _broken_gzip(f"The gzip data of the body is corrupt: {error}.") from error
    if limit and len(plain) > limit:
        raise too_large()
    if not member.eof or member.unused_data:
        raise _broken_gzip("The body must be one gzip stream. It is incomplete, or more data follows it.")
    return plain


def _broken_gzip(detail: str) -> ParseError:
    return ParseError(detail, errors=[ErrorItem(ParseError.code, detail)])


def too_large() -> RequestEntityTooLarge:
    """Return the error for a body that is too large. Its message has the limit."""
    limit = request.max_content_length
    return RequestEntityTooLarge(f"The body is larger than {limit:,} bytes, which is the most that is read.")


def json_body(blueprint: Blueprint, schema: Schema, example: Any = None) -> Callable[[View], View]:
    """Pass the request's body to the view, as `schema` loads it.

    Raises RequestFailedValidationError with every error of the body.
    """

    def decorate(view: View) -> View:
        @wraps(view)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            data, errors = load(schema, read_json())
            if errors:
                raise RequestFailedValidationError(errors=errors)
            return view(*args, data, **kwargs)

        return document_body(blueprint, schema, example)(wrapper)

    return decorate


def document_body(blueprint: Blueprint, schema: Schema, example: Any = None) -> Callable[[View], View]:
    """Describe the request's body in OpenAPI without reading it."""
    media: dict[str, Any] = {"schema": type(schema)}
    if example is not None:
        media["example"] = example
    body = {"required": True, "content": {"application/json": media}}
    return only_describe(blueprint.doc(requestBody=body))


def document_parameters(blueprint: Blueprint, *parameters: dict[str, Any]) -> Callable[[View], View]:
    """Describe further parameters of the operation in OpenAPI."""

    def decorate(view: View) -> View:
        known = getattr(view, "_apidoc", {}).get("manual_doc", {}).get("parameters", [])
        return only_describe(blueprint.doc(parameters=[*known, *parameters]))(view)

    return decorate


def query_arguments(blueprint: Blueprint, schema: Schema, *, closed: bool = False) -> Callable[[View], View]:
    """Pass the query string to the view, as `schema` loads it.

    A parameter that is given twice with two values is an error. With `closed` a parameter that `schema` does
    not have is one, too.
    """
    parameters = [
        {
            "in": "query",
            "name": name,
            "required": field.required,
            "description": field.metadata.get("description", ""),
            "schema": field.metadata.get("schema", {"type": "string", "minLength": 1}),
        }
        for name, field in schema.fields.items()
    ]

    def decorate(view: View) -> View:
        @wraps(view)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            errors = _contradictions(schema) + (_unknown_parameters(schema) if closed else [])
            data, load_errors = load(schema, request.args.to_dict())
            if errors or load_errors:
                raise RequestFailedValidationError(errors=errors + load_errors)
            return view(*args, data, **kwargs)

        return document_parameters(blueprint, *parameters)(wrapper)

    return decorate


def refuse_parameters(view: View) -> View:
    """Refuse every query parameter, for a view that takes none: it may be meant for the body."""

    @wraps(view)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        if errors := _unknown_parameters(Schema()):
            raise RequestFailedValidationError(errors=errors)
        return view(*args, **kwargs)

    return wrapper


def _contradictions(schema: Schema) -> list[ErrorItem]:
    detail = "This parameter is given more than once, with different values. Give it once."
    return [
        ErrorItem("invalid", detail, name)
        for name, values in request.args.lists()
        if name in schema.fields and len(set(values)) > 1
    ]


#: Members of the bodies that may turn up in the query string by mistake.
_BODY_MEMBERS = ("dry_run", "external_account_number", "import_supplier", "operations_team_name")


def _unknown_parameters(schema: Schema) -> list[ErrorItem]:
    errors = []
    for name in request.args:
        if name in schema.fields:
            continue
        detail = "This operation has no such query parameter."
        if meant := suggest(name, schema.fields):
            detail += f" Did you mean {meant}?"
        elif member := suggest(name, _BODY_MEMBERS):
            detail += f" {member} belongs in the body."
        errors.append(ErrorItem("unknown_field", detail, name))
    return errors
