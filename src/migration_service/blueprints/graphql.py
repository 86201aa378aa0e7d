"""`/v1/graphql/`, at which tokens are obtained (section 5): GraphQL over HTTP, with limits on everything.

Failures are GraphQL errors, whose `extensions` have errorType, errorCode and errorDescription. Neither bodies
nor variables are ever logged: they hold API keys.
"""

import logging
import re
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any

import graphql
from flask import Blueprint, Response, request
from graphql.validation import recommended_rules
from sqlalchemy.exc import OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from werkzeug.exceptions import HTTPException

from migration_payloads.schemas.json import encode_json
from migration_service import errors
from migration_service.blueprints.requests.body import read_json
from migration_service.blueprints.requests.errors import HTTP_CODES, ErrorType, status_of
from migration_service.blueprints.requests.places import enter_place
from migration_service.blueprints.requests.resources import resources
from migration_service.services.access.api_keys import find_prefix
from migration_service.services.access.throttle import client_of
from migration_service.services.access.tokens import obtain_tokens, refresh_tokens

SCHEMA = graphql.build_schema(Path(__file__).with_suffix(".graphql").read_text())

#: A mutation with an API key has about 200 bytes, and the introspection query of tools 2,000.
MAX_BODY_BYTES = 64 * 1024
# The recommended rules limit the nesting of introspection queries.
_RULES = tuple(dict.fromkeys((*graphql.specified_rules, *recommended_rules)))

#: The most tokens and comments in a document (`document_too_long`).
MAX_TOKENS = 1_000
MAX_COMMENTS = 100
#: Beginnings of graphql-core's messages, with the codes and sentences that replace them. The first match is
#: used.
_EXPLANATIONS = {
    "Syntax Error: Document contains more": (
        "document_too_long",
        f"The GraphQL document has more than {MAX_TOKENS} tokens or {MAX_COMMENTS} comments.",
    ),
    "Syntax Error: Document is nested": ("too_deep", "The GraphQL document is nested too deeply."),
    "Syntax Error": ("parse_error", "The GraphQL document has a syntax error."),
    "Variable ": ("invalid", "A variable of the GraphQL document has an unsuitable value or type."),
    "Unknown operation": ("invalid", "The GraphQL document has no operation with the given operationName."),
    "Must provide": (
        "invalid",
        "The GraphQL document must have exactly one operation, or operationName must choose one.",
    ),
}
_EXPECTED = (
    'Expected: mutation { obtainServiceToken(input: {APIKey: "<API_KEY>"}) { token } }, '
    'or {refreshToken: "<REFRESH_TOKEN>"} as input.'
)
#: The names of the schema that a message may repeat.
_SCHEMA_NAMES = frozenset(re.findall(r"\w+", graphql.print_schema(SCHEMA)))

_JSON = "application/json"
_GRAPHQL_JSON = "application/graphql-response+json"
_HINT = (
    'Send a POST with {"query": "mutation($key: String!) { obtainServiceToken(input: {APIKey: $key}) '
    '{ token } }", "variables": {"key": "<API_KEY>"}}.'
)

logger = logging.getLogger(__name__)

blueprint = Blueprint("graphql", __name__, url_prefix="/v1/graphql")


@dataclass(frozen=True, slots=True)
class _Problem:
    """One failure: its GraphQL error, and the HTTP status if the request has no other result."""

    type: ErrorType
    code: str
    detail: str
    status: HTTPStatus
    #: Seconds to wait, if waiting helps.
    retry_after: int | None = None
    #: `locations` and `path` of the GraphQL error.
    place: dict[str, Any] | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the object of GraphQL's `errors`."""
        extensions = {"errorType": self.type, "errorCode": self.code, "errorDescription": self.detail}
        return {"message": self.detail, **(self.place or {}), "extensions": extensions}


@blueprint.get("/", strict_slashes=False)
def show_hint() -> Response:
    """Return instructions. GET does nothing else, because an API key does not belong in a URL."""
    if "query" not in request.args:
        return _answer({"detail": _HINT}, HTTPStatus.OK)
    status = HTTPStatus.METHOD_NOT_ALLOWED
    response = _answer_problem(_Problem(ErrorType.VALIDATION, "method_not_allowed", _HINT, status))
    response.headers["Allow"] = "POST"
    return response


@blueprint.post("/", strict_slashes=False)
def obtain_token() -> Response:
    """Execute a GraphQL document. Every failure has the form of a GraphQL error."""
    try:
        enter_place()
        return _answer_result(_execute(*_read_request()))
    except errors.ServiceError as error:
        return _answer_problem(_describe_service_error(error))
    except HTTPException as error:
        return _answer_problem(_describe_http_error(error))


def _read_request() -> tuple[str, dict[str, Any], str | None]:
    """Return the document, the variables and the name of the operation. Raise InvalidError."""
    request.max_content_length = MAX_BODY_BYTES
    body = read_json()
    if not isinstance(body, dict):
        raise errors.InvalidError("The body must be a JSON object with a query.")
    query, variables, operation_name = (body.get(name) for name in ("query", "variables", "operationName"))
    if not isinstance(query, str):
        raise errors.InvalidError("query must be a string: the GraphQL document.")
    if not isinstance(variables, dict | None):
        raise errors.InvalidError("variables must be an object.")
    if not isinstance(operation_name, str | None):
        raise errors.InvalidError("operationName must be a string.")
    return query, variables or {}, operation_name


def _obtain(_info: Any, **arguments: Any) -> dict[str, Any]:
    """Resolve the mutation.

    Raise InvalidError, UnauthenticatedError, PermissionDeniedError or ThrottledError.
    """
    api_key, refresh_token = (arguments["input"].get(name) for name in ("APIKey", "refreshToken"))
    if (api_key is None) == (refresh_token is None):
        raise errors.InvalidError("Give either an APIKey or a refreshToken.")
    shared, client = resources(), client_of(request.remote_addr)
    try:
        shared.throttle.check(client)
        with shared.Session.begin() as session:
            if api_key is not None:
                tokens = obtain_tokens(session, shared.settings, api_key)
            else:
                tokens = refresh_tokens(session, shared.settings, refresh_token)
    except (errors.UnauthenticatedError, errors.PermissionDeniedError, errors.ThrottledError) as error:
        shared.refusals.note_refused_login(error, find_prefix(api_key or ""))
        if isinstance(error, errors.UnauthenticatedError):
            shared.throttle.count_failure(client)
        raise
    return {
        "token": tokens.token,
        "refreshToken": tokens.refresh_token,
        "refreshExpiresIn": tokens.refresh_expires_at,
        "payload": tokens.payload,
    }


def _execute(query: str, variables: dict[str, Any], operation_name: str | None) -> graphql.ExecutionResult:
    """Execute the document. If the result has no data, execution did not start."""
    try:
        document = graphql.parse(query, max_lexical_tokens=MAX_TOKENS, max_comments=MAX_COMMENTS)
        if problems := graphql.validate(SCHEMA, document, _RULES, max_errors=20):
            return graphql.ExecutionResult(None, problems)
        fields = {"documentation": "/v1/docs/", "obtainServiceToken": _obtain, "ObtainServiceToken": _obtain}
        return graphql.execute_sync(
            SCHEMA, document, root_value=fields, variable_values=variables, operation_name=operation_name
        )
    except graphql.GraphQLError as error:
        return graphql.ExecutionResult(None, [error])
    except RecursionError as error:
        detail = "The GraphQL document is nested too deeply."
        raise errors.ParseError(detail, errors=[errors.ErrorItem("too_deep", detail)]) from error


@blueprint.errorhandler(OperationalError)
@blueprint.errorhandler(PoolTimeoutError)
def _database_unavailable(error: Exception) -> Response:
    return _answer_problem(_describe_graphql_error(graphql.GraphQLError("", original_error=error)))


def _answer_result(result: graphql.ExecutionResult) -> Response:
    problems = [_describe_graphql_error(error) for error in result.errors or ()]
    body: dict[str, Any] = {} if result.data is None else {"data": result.data}
    if problems:
        body["errors"] = [problem.to_dict() for problem in problems]
    partly_done = result.data is not None and any(value is not None for value in result.data.values())
    if partly_done or not problems:
        return _answer(body, HTTPStatus.OK)
    for error in result.errors or ():
        if isinstance(error.original_error, OperationalError | PoolTimeoutError):
            raise error.original_error  # and the request is repeated if another server becomes the primary
    response = _answer(body, max(problem.status for problem in problems))
    if wait := max(problem.retry_after or 0 for problem in problems):
        response.headers["Retry-After"] = str(wait)
    return response


def _answer_problem(problem: _Problem) -> Response:
    response = _answer({"errors": [problem.to_dict()]}, problem.status)
    if problem.retry_after:
        response.headers["Retry-After"] = str(problem.retry_after)
    return response


def _answer(body: dict[str, Any], status: HTTPStatus) -> Response:
    mimetype = request.accept_mimetypes.best_match((_JSON, _GRAPHQL_JSON), default=_JSON)
    response = Response(encode_json(body), status, mimetype=mimetype)
    response.headers["Cache-Control"] = "no-store"
    return response


def _describe_graphql_error(error: graphql.GraphQLError) -> _Problem:
    """Return the problem for an error that GraphQL found, or that a resolver raised.

    The text of an unexpected error is logged, and never returned.
    """
    place = {name: value for name, value in error.formatted.items() if name in ("locations", "path")}
    original = error.original_error
    while isinstance(
        original, graphql.GraphQLError
    ):  # the error about a variable is inside the error about its operation
        original = original.original_error
    if isinstance(original, OperationalError | PoolTimeoutError):
        logger.error("The database did not answer: %s", type(original).__name__)
        original = errors.ServiceUnavailableError()
    if isinstance(original, errors.ServiceError):
        return _describe_service_error(original, place)
    if original is None:
        code, detail = _explain(error)
        return _Problem(ErrorType.VALIDATION, code, detail, HTTPStatus.BAD_REQUEST, place=place)
    logger.error("An unexpected error", exc_info=original)
    detail = "An unexpected error. Nothing was changed."
    return _Problem(ErrorType.APPLICATION, "error", detail, HTTPStatus.INTERNAL_SERVER_ERROR, place=place)


def _explain(error: graphql.GraphQLError) -> tuple[str, str]:
    """Return a code and a sentence about a document or variables that do not match the schema.

    Messages of graphql-core are never returned, because they repeat the request: an API key under a misspelt
    name would get into the response and into proxy logs. Only names from the schema that graphql-core
    suggests are repeated.
    """
    known = (found for start, found in _EXPLANATIONS.items() if error.message.startswith(start))
    code, sentence = next(known, ("invalid", "The GraphQL document does not fit the schema."))
    suggested = error.message.rpartition("Did you mean ")[2] if "Did you mean " in error.message else ""
    names = [name for name in re.findall(r"'(\w+)'", suggested) if name in _SCHEMA_NAMES]
    return code, f"{sentence} Did you mean {' or '.join(names)}?" if names else f"{sentence} {_EXPECTED}"


def _describe_service_error(error: errors.ServiceError, place: dict[str, Any] | None = None) -> _Problem:
    """Return the problem for an expected failure."""
    status = status_of(type(error))
    match error:
        case errors.ThrottledError() | errors.ShareUsedError():
            wait = error.retry_after if isinstance(error, errors.ThrottledError) else error.retry_seconds[1]
            return _Problem(ErrorType.THROTTLING, error.code, error.detail, status, wait, place)
        case errors.ServiceUnavailableError():
            return _Problem(
                ErrorType.APPLICATION, error.code, error.detail, status, error.retry_seconds[0], place
            )
        case errors.PermissionDeniedError():
            return _Problem(ErrorType.AUTHENTICATION, error.code, error.detail, status, place=place)
        case errors.UnauthenticatedError():
            # GraphQL has executed the document, so the HTTP status is no error.
            return _Problem(ErrorType.AUTHENTICATION, error.code, error.detail, HTTPStatus.OK, place=place)
        case errors.ParseError(errors=[errors.ErrorItem(code=code)]):
            # A body that exceeds a bound has the code of the bound, because a GraphQL error has no list of
            # errors.
            return _Problem(ErrorType.VALIDATION, code, error.detail, status, place=place)
    return _Problem(ErrorType.VALIDATION, error.code, error.detail, status, place=place)


def _describe_http_error(error: HTTPException) -> _Problem:
    """Return the problem for a request that cannot be read, for example one with a body that is too large."""
    status = HTTPStatus(error.code or 400)
    code = HTTP_CODES.get(status, "invalid")
    return _Problem(ErrorType.VALIDATION, code, error.description or status.phrase, status)
