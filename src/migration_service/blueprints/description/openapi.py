"""The interface description: OpenAPI 3.1, the errors of each operation, and a page that shows it."""

from collections.abc import Callable
from hashlib import sha256
from http import HTTPStatus
from itertools import groupby
from pathlib import Path

import flask
import flask_swagger_ui
from flask import Flask, Response, request, send_from_directory
from flask_smorest import Api
from flask_smorest.response import ResponseMixin

from migration_payloads.schemas.base import Fields
from migration_payloads.schemas.json import encode_json
from migration_service import errors
from migration_service.blueprints.description.document import add_event_schemas, complete_description
from migration_service.blueprints.description.error_catalogue import field_errors, meaning_of, rule_errors
from migration_service.blueprints.description.examples import NUMBER
from migration_service.blueprints.requests.describing import View, described_body, only_describe
from migration_service.blueprints.requests.errors import error_body, status_of
from migration_service.schemas.requests import ErrorBodySchema

_ASSETS = Path(flask_swagger_ui.__file__).parent / "dist"
_PAGE = Path(__file__).with_name("page.html").read_text()
# A separate file, because the page may not run inline scripts.
_START = Path(__file__).with_name("start.js").read_text()
#: Errors that every operation with a token can return.
_EVERYWHERE: tuple[type[errors.ServiceError], ...] = (
    errors.NotAuthenticatedError,
    errors.UnauthenticatedError,
    errors.PermissionDeniedError,
    errors.ShareUsedError,
    errors.ServiceUnavailableError,
)


def answers_errors(
    *classes: type[errors.ServiceError],
    body: type[Fields] = ErrorBodySchema,
    as_answered: Callable[[errors.InvalidError], errors.InvalidError] = lambda error: error,
) -> Callable[[View], View]:
    """Describe the errors of an operation: for each status its codes, each with an example.

    `classes` are those beside what can be wrong with every request, its parameters and its JSON body.
    `body` is the schema of the operation's 400. `as_answered` converts a listed error to the error that the
    operation returns.
    """

    def example(error_class: type[errors.ServiceError]) -> errors.ServiceError:
        numbers = (NUMBER, "A-7KX2M9QD") if error_class is errors.AccountAlreadyImportedError else ()
        error = error_class(*numbers)
        return as_answered(error) if isinstance(error, errors.InvalidError) else error

    def decorate(view: View) -> View:
        found: list[type[errors.ServiceError]] = [errors.RequestFailedValidationError, *classes]
        if "application/json" in described_body(view).get("content", {}):  # a decorator below says so
            found.append(errors.ParseError)
        listed = sorted(dict.fromkeys((*found, *_EVERYWHERE)), key=status_of)
        for status, group in groupby(listed, key=status_of):
            members = list(group)
            lines = [f"* `{error.code}`: {meaning_of(error)}{_codes_within(error)}" for error in members]
            describe = ResponseMixin().alt_response(
                status.value,
                schema=body if status == HTTPStatus.BAD_REQUEST else ErrorBodySchema,
                description=f"{HTTPStatus(status).phrase}\n\n" + "\n".join(lines),
                examples={error.code: {"value": error_body(example(error))} for error in members},
            )
            only_describe(describe)(view)
        return view

    return decorate


def _codes_within(error: type[errors.ServiceError]) -> str:
    """Return a sentence that lists the codes in the `errors` of a failed validation."""
    entries = []
    if issubclass(error, errors.RequestFailedValidationError) and error is not errors.ParseError:
        entries += field_errors()
    if error is errors.AccountFailedValidationError:
        entries += rule_errors()
    codes = ", ".join(f"`{code}`" for code in dict.fromkeys(entry.code for entry in entries))
    return f"\n  Codes within: {codes}." if codes else ""


def configure_openapi(app: Flask) -> Api:
    """Return the Api that collects the description of `app` while blueprints are registered."""
    app.config.update(API_TITLE="Account Migration Import Service", API_VERSION="v1", OPENAPI_VERSION="3.1.0")
    api = Api()
    api.DEFAULT_ERROR_RESPONSE_NAME = None  # each operation lists its own errors
    api.init_app(app)
    add_event_schemas(api.spec.components)
    api.spec.components.security_scheme(
        "Token",
        {
            "type": "apiKey",
            "in": "header",
            "name": "Authorization",
            "description": "The token that `obtain_token` returns, bare or as `Token <token>`.",
        },
    )
    return api


def serve_description(app: Flask, api: Api) -> None:
    """Serve the description at /v1/openapi.json, and a page at /v1/docs/ that loads nothing from outside."""
    blueprint = flask.Blueprint("docs", __name__, url_prefix="/v1")
    text = encode_json(complete_description(app, api.spec.to_dict()))
    etag = sha256(text).hexdigest()[:32]

    @blueprint.get("/openapi.json")
    def description_json() -> Response:
        # Clients may keep it, and ask each time whether it is still the same (304).
        response = Response(text, mimetype="application/json", headers={"Cache-Control": "no-cache"})
        response.set_etag(etag)
        response.make_conditional(request)
        return response

    @blueprint.get("/docs/")
    def page() -> Response:
        return Response(_PAGE, mimetype="text/html", headers={"Cache-Control": "no-cache"})

    @blueprint.get("/docs/assets/start.js")
    def start() -> Response:
        return Response(_START, mimetype="text/javascript", headers={"Cache-Control": "no-cache"})

    @blueprint.get("/docs/assets/<path:name>")
    def asset(name: str) -> Response:
        return send_from_directory(_ASSETS, name)

    app.register_blueprint(blueprint)
