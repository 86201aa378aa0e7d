"""The interface description: OpenAPI 3.1, its errors per operation, and a page that shows it."""

from collections.abc import Callable
from http import HTTPStatus
from itertools import groupby
from pathlib import Path
from typing import Any

import flask_swagger_ui
from flask import Blueprint as PlainBlueprint
from flask import Flask, Response, send_from_directory
from flask_smorest import Api, Blueprint

from migration_service.blueprints.error_catalogue import field_errors, meaning_of, rule_errors
from migration_service.blueprints.errors import error_body, status_of
from migration_service.errors import (
    AccountAlreadyImportedError,
    AccountFailedValidationError,
    InvalidError,
    NotAuthenticatedError,
    ParseError,
    PermissionDeniedError,
    RequestFailedValidationError,
    ServiceError,
    ServiceUnavailableError,
    UnauthenticatedError,
)
from migration_service.schemas.base import Fields
from migration_service.schemas.requests import ErrorBodySchema

View = Callable[..., Any]

#: Errors that every operation with a token can answer with.
_EVERYWHERE: tuple[type[ServiceError], ...] = (
    NotAuthenticatedError,
    UnauthenticatedError,
    PermissionDeniedError,
    ServiceUnavailableError,
)

# The page loads nothing from elsewhere, and the browser sees to it.
_PAGE_POLICY = (
    "default-src 'self'; style-src 'self' 'unsafe-inline'; script-src 'self' 'unsafe-inline'; "
    "img-src 'self' data:"
)


def answers_errors(
    blueprint: Blueprint,
    *classes: type[ServiceError],
    everywhere: bool = True,
    own_body: tuple[type[Fields], Callable[[InvalidError], InvalidError]] | None = None,
) -> Callable[[View], View]:
    """Describe the errors of an operation: for each status its codes, each with an example.

    `own_body` is for an operation whose 400 has a shape of its own: its schema, and what makes such an error
    of another.
    """

    def example(error_class: type[ServiceError]) -> ServiceError:
        error = _example(error_class)
        return own_body[1](error) if own_body and isinstance(error, InvalidError) else error

    def decorate(view: View) -> View:
        listed = sorted((*classes, *(_EVERYWHERE if everywhere else ())), key=status_of)
        for status, group in groupby(listed, key=status_of):
            members = list(group)
            lines = [f"* `{error.code}`: {meaning_of(error)}{_codes_within(error)}" for error in members]
            view = blueprint.alt_response(
                status.value,
                schema=own_body[0] if own_body and status == HTTPStatus.BAD_REQUEST else ErrorBodySchema,
                description=f"{HTTPStatus(status).phrase}\n\n" + "\n".join(lines),
                examples={error.code: {"value": error_body(example(error))} for error in members},
                success=False,
            )(view)
        return view

    return decorate


def _codes_within(error: type[ServiceError]) -> str:
    """Which codes the `errors` of a failed validation can have."""
    entries = []
    if issubclass(error, RequestFailedValidationError) and error is not ParseError:
        entries += field_errors()
    if error is AccountFailedValidationError:
        entries += rule_errors()
    codes = ", ".join(f"`{code}`" for code in dict.fromkeys(entry.code for entry in entries))
    return f"\n  Codes within: {codes}." if codes else ""


def _example(error: type[ServiceError]) -> ServiceError:
    if error is AccountAlreadyImportedError:
        return AccountAlreadyImportedError("10000001", "A-7KX2M9QD")
    return error()


def configure_openapi(app: Flask) -> Api:
    """Give `app` its description at /v1/openapi.json, and the page that shows it at /v1/docs/."""
    app.config.update(
        API_TITLE="Account Migration Import Service",
        API_VERSION="v1",
        OPENAPI_VERSION="3.1.0",
        OPENAPI_URL_PREFIX="/v1",
        OPENAPI_JSON_PATH="openapi.json",
        OPENAPI_SWAGGER_UI_PATH="/docs/",
        OPENAPI_SWAGGER_UI_URL="/v1/docs/assets/",
    )
    api = Api()
    api.DEFAULT_ERROR_RESPONSE_NAME = None  # each operation lists its own errors
    api.init_app(app)
    api.spec.components.security_scheme(
        "Token",
        {
            "type": "apiKey",
            "in": "header",
            "name": "Authorization",
            "description": "`Token <token>`, with a token from the mutation `obtainServiceToken` at "
            "`/v1/graphql/`.",
        },
    )
    assets = Path(flask_swagger_ui.__file__).parent / "dist"
    pages = PlainBlueprint("docs_assets", __name__)

    @pages.get("/v1/docs/assets/<path:name>")
    def asset(name: str) -> Response:
        return send_from_directory(assets, name)

    @app.after_request
    def keep_to_this_host(response: Response) -> Response:
        if response.mimetype == "text/html":
            response.headers["Content-Security-Policy"] = _PAGE_POLICY
        return response

    app.register_blueprint(pages)
    return api
