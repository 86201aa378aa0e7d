"""Reads and describes request bodies and query strings, and reports all their errors together."""

import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial, wraps
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, cast

from flask import Flask, current_app, g, request
from flask.globals import request_ctx
from flask_smorest import Blueprint
from marshmallow import Schema
from werkzeug.exceptions import LengthRequired, RequestEntityTooLarge, UnsupportedMediaType

from migration_payloads.schemas.base import MAX_SUGGESTIONS, limit_errors, load, suggest
from migration_payloads.schemas.coded import Coded
from migration_payloads.schemas.json import parse_json
from migration_service.blueprints.requests.application import INTERFACE
from migration_service.blueprints.requests.describing import View, described_body, only_describe
from migration_service.blueprints.requests.interface import find_unknown_names
from migration_service.db.pieces import DECODED
from migration_service.errors import ErrorItem, ParseError, RequestFailedValidationError

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

_IS_CLOSED = "_refuses_unknown_parameters"
_FIND_ERRORS = "_finds_errors"
#: An empty body or object is shorter than this.
_EMPTY_BODY_BYTES = 64
#: Bytes of a body that nobody needs, which are read at once.
_BLOCK_BYTES = 65_536


def read_json() -> Any:
    """Return the JSON value of the request's body.

    Raise ParseError if it is not JSON, and the exceptions of `read_text`.
    """
    return parse_json(read_text())


def read_text() -> bytes:
    """Return the request's body, which should be JSON. Raise the exceptions of 411, 413 and 415.

    A long one counts as decoded until the request ends: the process decodes few of those at once.
    """
    if request.mimetype and not (request.is_json or request.mimetype == "text/json"):
        raise UnsupportedMediaType("The body must be JSON: send Content-Type application/json.")
    if request.content_encoding not in (None, "", "identity", "gzip", "x-gzip"):
        raise UnsupportedMediaType("The body may be sent as it is, or with Content-Encoding: gzip.")
    data = _read_body()
    if request.content_encoding in ("gzip", "x-gzip"):
        data = _decompress(data)
    if "decoded" not in g:
        g.decoded = ExitStack()
        g.decoded.enter_context(DECODED.holding(len(data)))
    return data


def forget_body() -> None:
    """Let other requests decode theirs."""
    if "decoded" in g:
        g.pop("decoded").close()


def _read_body() -> bytes:
    require_length()
    try:
        return request.get_data(cache=True)  # a repeated request reads it again
    except RequestEntityTooLarge:
        raise too_large() from None


def require_length() -> None:
    """Raise LengthRequired if the request has a body in chunks.

    The web server cannot tell one that breaks off from a whole one. The proxy before it waits for the last
    chunk, and then states the length.
    """
    if request.content_length is None and "Transfer-Encoding" in request.headers:
        raise LengthRequired("Send the body with Content-Length. Only the proxy takes a body in chunks.")


def _decompress(data: bytes) -> bytes:
    """Return decompressed gzip data, never more than the size limit of a body."""
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


def reading_to_the_end(application: "WSGIApplication") -> "WSGIApplication":
    """Return `application`, with what it has not read of a body read after it.

    The web server resets a connection whose request was not read to its end, and the answer might be lost.
    """

    def answer(environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
        answered = application(environ, start_response)
        if environ.get("CONTENT_LENGTH", "0") != "0" or "HTTP_TRANSFER_ENCODING" in environ:
            while environ["wsgi.input"].read(_BLOCK_BYTES):
                pass
        return answered

    return answer


def too_large() -> RequestEntityTooLarge:
    """Return the error for a body that is too large. Its message includes the limit."""
    limit = request.max_content_length
    return RequestEntityTooLarge(f"The body is larger than {limit:,} bytes, which is the most that is read.")


def json_body(
    schema: Schema,
    example: Any = None,
    find_misfits: Callable[[Any], Sequence[ErrorItem]] | None = None,
) -> Callable[[View], View]:
    """Pass the request's body to the view, as `schema` loads it.

    Raises RequestFailedValidationError with every error of the body. `find_misfits` returns the errors that
    the view finds in a body without errors, for a request that has others.
    """

    def find_errors() -> Sequence[ErrorItem]:
        try:
            data, errors = load(schema, read_json())
        except RequestFailedValidationError as error:
            return error.errors
        if not errors and find_misfits:
            errors = [*find_misfits(data)]
        return [*errors, *find_unknown_names(data)]

    def decorate(view: View) -> View:
        @wraps(view)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            data, errors = load(schema, read_json())
            if errors:
                raise RequestFailedValidationError(errors=limit_errors([*errors, *find_unknown_names(data)]))
            return view(*args, data, **kwargs)

        vars(wrapper)[_FIND_ERRORS] = find_errors
        return document_body(schema, example)(wrapper)

    return decorate


def find_request_errors(view: View) -> list[ErrorItem]:
    """Return the errors that the decorators of `view` find in a request that has other errors."""
    find: Callable[[], Sequence[ErrorItem]] = vars(view).get(_FIND_ERRORS, list)
    return [*find()]


def add_request_errors(view: View, find_errors: Callable[[], Sequence[ErrorItem]]) -> None:
    """Let `find_request_errors` return what `find_errors` finds as well."""
    of_view = vars(view).get(_FIND_ERRORS, list)
    vars(view)[_FIND_ERRORS] = lambda: [*find_errors(), *of_view()]


def document_body(schema: Schema, example: Any = None) -> Callable[[View], View]:
    """Describe the request's body in OpenAPI without reading it."""
    media: dict[str, Any] = {"schema": type(schema)}
    if example is not None:
        media["example"] = example
    body = {"required": True, "content": {"application/json": media}}
    return only_describe(Blueprint.doc(requestBody=body))


def document_parameters(*parameters: dict[str, Any]) -> Callable[[View], View]:
    """Describe further parameters of the operation in OpenAPI."""

    def decorate(view: View) -> View:
        known = getattr(view, "_apidoc", {}).get("manual_doc", {}).get("parameters", [])
        return only_describe(Blueprint.doc(parameters=[*known, *parameters]))(view)

    return decorate


def query_arguments(
    schema: Schema,
    hints: Mapping[str, str] = MappingProxyType({}),
    find_errors: Callable[[], Sequence[ErrorItem]] | None = None,
    find_misfits: Callable[[Any], Sequence[ErrorItem]] = lambda _: (),
) -> Callable[[View], View]:
    """Pass the query string to the view, as `schema` loads it.

    A request with a wrong parameter tells all its errors: `find_misfits` returns those that the view finds in
    the other parameters, and `find_errors` those of the body, unless `json_body` reads it.

    A parameter with two different values is an error, and so is one that `schema` does not have. For such
    parameters, `hints` maps the name to what to send instead.
    """
    parameters = [
        {
            "in": "query",
            "name": name,
            "required": field.required,
            "description": field.metadata["description"],
            "schema": field.parameter,
        }
        for name, field in cast(dict[str, Coded], schema.fields).items()
    ]

    def decorate(view: View) -> View:
        of_body = find_errors or partial(find_request_errors, view)

        def load_query() -> tuple[Any, list[ErrorItem]]:
            data, errors = load(schema, request.args.to_dict())
            return data, [*_contradictions(schema), *_unknown_parameters(schema.fields, hints), *errors]

        def find_all() -> list[ErrorItem]:
            data, errors = load_query()
            return [*errors, *find_misfits(data), *of_body()]

        @wraps(view)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            data, errors = load_query()
            if errors:
                raise RequestFailedValidationError(errors=limit_errors(find_all()))
            return view(*args, data, **kwargs)

        vars(wrapper)[_FIND_ERRORS] = find_all
        vars(wrapper)[_IS_CLOSED] = True
        return document_parameters(*parameters)(wrapper)

    return decorate


def close_operations(app: Flask) -> None:
    """Let every operation below `INTERFACE` refuse unknown query parameters and a body it does not take.

    A misspelt parameter or a `dry_run` is then never ignored. Operations with `query_arguments` refuse
    parameters themselves, in the form of their other errors. Call this after all views are registered.
    """
    endpoints = {rule.endpoint for rule in app.url_map.iter_rules() if rule.rule.startswith(INTERFACE)}
    for endpoint in endpoints:
        view = app.view_functions[endpoint]
        app.view_functions[endpoint] = _closed(view, to_body=not described_body(view))


def _closed(view: View, *, to_body: bool) -> View:
    to_parameters = _IS_CLOSED not in vars(view)

    @wraps(view)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        asked = request_ctx.request
        errors = []
        if to_body and asked.method != "GET" and _has_body():
            errors.append(ErrorItem("invalid", "This operation takes no body: leave it out."))
        if to_parameters and asked.query_string:
            errors += _unknown_parameters({}, {})
        if errors:
            found = [*errors, *find_request_errors(view)]
            raise RequestFailedValidationError(errors=limit_errors(found))
        return view(*args, **kwargs)

    return wrapper


def _has_body() -> bool:
    """Return whether the request has a body other than an empty object. A long one is not read to its end."""
    start = request.stream.read(_EMPTY_BODY_BYTES)
    return len(start) == _EMPTY_BODY_BYTES or b"".join(start.split()) not in (b"", b"{}")


def _contradictions(schema: Schema) -> list[ErrorItem]:
    detail = "This parameter is given more than once, with different values. Give it once."
    return [
        ErrorItem("invalid", detail, name)
        for name, values in request.args.lists()
        if name in schema.fields and len(set(values)) > 1
    ]


def _unknown_parameters(known: Mapping[str, Any], hints: Mapping[str, str]) -> list[ErrorItem]:
    unknown = [name for name in request.args if name not in known]
    return [
        ErrorItem(
            "unknown_field",
            "This operation has no such query parameter."
            + (_say_what_is_meant(name, known, hints) if place < MAX_SUGGESTIONS else ""),
            name,
        )
        for place, name in enumerate(unknown)
    ]


def _say_what_is_meant(name: str, known: Mapping[str, Any], hints: Mapping[str, str]) -> str:
    """Return a sentence about what to send instead of a parameter, or an empty text."""
    if hinted := suggest(name, hints):
        return f" {hints[hinted]}"
    if meant := suggest(name, known):
        return f" Did you mean {meant}?"
    if member := suggest(name, _body_members()):
        return f" {member} belongs in the body."
    return ""


def _body_members() -> list[str]:
    """Return the names of the members in the operation's described JSON body."""
    body = described_body(current_app.view_functions[request.endpoint or ""])
    schema = body.get("content", {}).get("application/json", {}).get("schema")
    return [*getattr(schema, "_declared_fields", ())]
