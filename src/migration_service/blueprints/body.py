"""Reading request bodies and query strings, every error at once, and describing them in OpenAPI."""

from collections.abc import Callable
from functools import wraps
from typing import Any

from flask import request
from flask_smorest import Blueprint
from marshmallow import Schema
from werkzeug.exceptions import UnsupportedMediaType

from migration_service.errors import RequestFailedValidationError
from migration_service.schemas.base import load
from migration_service.schemas.json import parse_json

View = Callable[..., Any]


def read_json() -> Any:
    """The JSON value of the request's body. Raises ParseError, or 415 for another kind of body."""
    if request.mimetype and not (request.is_json or request.mimetype == "text/json"):
        raise UnsupportedMediaType("The body must be JSON: send Content-Type application/json.")
    if request.content_encoding:
        raise UnsupportedMediaType("The body must be sent as it is, without Content-Encoding.")
    return parse_json(request.get_data(cache=False))


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
    documented: Callable[[View], View] = blueprint.doc(requestBody=body)
    return documented


def query_arguments(blueprint: Blueprint, schema: Schema) -> Callable[[View], View]:
    """Pass the query string to the view, as `schema` loads it. An argument given twice counts once."""
    parameters = [
        {
            "in": "query",
            "name": name,
            "required": field.required,
            "description": field.metadata.get("description", ""),
            "schema": field.metadata.get("schema", {"type": "string"}),
        }
        for name, field in schema.fields.items()
    ]

    def decorate(view: View) -> View:
        @wraps(view)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            data, errors = load(schema, request.args.to_dict())
            if errors:
                raise RequestFailedValidationError(errors=errors)
            return view(*args, data, **kwargs)

        documented: View = blueprint.doc(parameters=parameters)(wrapper)
        return documented

    return decorate
