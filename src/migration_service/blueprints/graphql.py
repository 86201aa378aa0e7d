"""`/v1/graphql/`, at which tokens are obtained (section 5): GraphQL over HTTP, with limits on everything.

Neither bodies nor variables are ever logged: they hold API keys.
"""

from http import HTTPStatus
from typing import Any

from flask import Blueprint, Response, request
from graphql import ExecutionResult, GraphQLError, execute_sync, parse, specified_rules, validate
from graphql.validation import recommended_rules
from sqlalchemy.exc import OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from werkzeug.exceptions import HTTPException

from migration_payloads.schemas.json import encode_json
from migration_service.blueprints.graphql_errors import (
    MAX_COMMENTS,
    MAX_TOKENS,
    Problem,
    describe_graphql_error,
    describe_http_error,
    describe_service_error,
)
from migration_service.blueprints.graphql_schema import SCHEMA, TokenAttempt
from migration_service.blueprints.requests.body import read_json
from migration_service.blueprints.requests.errors import ErrorType
from migration_service.blueprints.requests.places import enter_place
from migration_service.blueprints.requests.resources import resources
from migration_service.errors import ErrorItem, InvalidError, ParseError, ServiceError

#: A mutation with an API key has about 200 bytes, and the introspection query of tools 2,000.
MAX_BODY_BYTES = 64 * 1024
# The recommended rules limit the nesting of introspection queries.
_RULES = tuple(dict.fromkeys((*specified_rules, *recommended_rules)))

_JSON = "application/json"
_GRAPHQL_JSON = "application/graphql-response+json"
_HINT = (
    'Send a POST with {"query": "mutation($key: String!) { obtainServiceToken(input: {APIKey: $key}) '
    '{ token } }", "variables": {"key": "<API_KEY>"}}.'
)

blueprint = Blueprint("graphql", __name__, url_prefix="/v1/graphql")


@blueprint.get("/", strict_slashes=False)
def show_hint() -> Response:
    """Return instructions. GET does nothing else, because an API key does not belong in a URL."""
    if "query" not in request.args:
        return _answer({"detail": _HINT}, HTTPStatus.OK)
    status = HTTPStatus.METHOD_NOT_ALLOWED
    response = _answer_problem(Problem(ErrorType.VALIDATION, "method_not_allowed", _HINT, status))
    response.headers["Allow"] = "POST"
    return response


@blueprint.post("/", strict_slashes=False)
def obtain_token() -> Response:
    """Execute a GraphQL document. Every failure has the form of a GraphQL error."""
    try:
        enter_place()
        return _answer_result(_execute(*_read_request()))
    except ServiceError as error:
        return _answer_problem(describe_service_error(error))
    except HTTPException as error:
        return _answer_problem(describe_http_error(error))


def _read_request() -> tuple[str, dict[str, Any], str | None]:
    """Return the document, the variables and the name of the operation. Raise InvalidError."""
    request.max_content_length = MAX_BODY_BYTES
    body = read_json()
    if not isinstance(body, dict):
        raise InvalidError("The body must be a JSON object with a query.")
    query, variables, operation_name = (body.get(name) for name in ("query", "variables", "operationName"))
    if not isinstance(query, str):
        raise InvalidError("query must be a string: the GraphQL document.")
    if not isinstance(variables, dict | None):
        raise InvalidError("variables must be an object.")
    if not isinstance(operation_name, str | None):
        raise InvalidError("operationName must be a string.")
    return query, variables or {}, operation_name


def _execute(query: str, variables: dict[str, Any], operation_name: str | None) -> ExecutionResult:
    """Execute the document. If the result has no data, execution did not start."""
    try:
        document = parse(query, max_lexical_tokens=MAX_TOKENS, max_comments=MAX_COMMENTS)
        if problems := validate(SCHEMA, document, _RULES, max_errors=20):
            return ExecutionResult(None, problems)
        return execute_sync(
            SCHEMA,
            document,
            context_value=TokenAttempt(resources(), request.remote_addr),
            variable_values=variables,
            operation_name=operation_name,
        )
    except GraphQLError as error:
        return ExecutionResult(None, [error])
    except RecursionError as error:
        detail = "The GraphQL document is nested too deeply."
        raise ParseError(detail, errors=[ErrorItem("too_deep", detail)]) from error


@blueprint.errorhandler(OperationalError)
@blueprint.errorhandler(PoolTimeoutError)
def _database_unavailable(error: Exception) -> Response:
    return _answer_problem(describe_graphql_error(GraphQLError("", original_error=error)))


def _answer_result(result: ExecutionResult) -> Response:
    problems = [describe_graphql_error(error) for error in result.errors or ()]
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


def _answer_problem(problem: Problem) -> Response:
    response = _answer({"errors": [problem.to_dict()]}, problem.status)
    if problem.retry_after:
        response.headers["Retry-After"] = str(problem.retry_after)
    return response


def _answer(body: dict[str, Any], status: HTTPStatus) -> Response:
    mimetype = request.accept_mimetypes.best_match((_JSON, _GRAPHQL_JSON), default=_JSON)
    response = Response(encode_json(body), status, mimetype=mimetype)
    response.headers["Cache-Control"] = "no-store"
    return response
