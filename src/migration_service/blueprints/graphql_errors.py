"""Failures in the form of GraphQL errors: `extensions` has errorType, errorCode, errorDescription."""

import logging
import re
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from graphql import GraphQLError, print_schema
from sqlalchemy.exc import OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from werkzeug.exceptions import HTTPException

from migration_service.blueprints.graphql_schema import SCHEMA
from migration_service.blueprints.requests.errors import HTTP_CODES, ErrorType, status_of
from migration_service.errors import (
    ErrorItem,
    ParseError,
    PermissionDeniedError,
    ServiceError,
    ServiceUnavailableError,
    ShareUsedError,
    ThrottledError,
    UnauthenticatedError,
)

logger = logging.getLogger(__name__)

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
    "Variable ": (
        "invalid",
        "A variable of the GraphQL document has an unsuitable value or type.",
    ),
    "Unknown operation": (
        "invalid",
        "The GraphQL document has no operation with the given operationName.",
    ),
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
_SCHEMA_NAMES = frozenset(re.findall(r"\w+", print_schema(SCHEMA)))


@dataclass(frozen=True, slots=True)
class Problem:
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
        extensions = {
            "errorType": self.type,
            "errorCode": self.code,
            "errorDescription": self.detail,
        }
        return {"message": self.detail, **(self.place or {}), "extensions": extensions}


def describe_graphql_error(error: GraphQLError) -> Problem:
    """Return the problem for an error that GraphQL found, or that a resolver raised.

    The text of an unexpected error is logged, and never returned.
    """
    place = {name: value for name, value in error.formatted.items() if name in ("locations", "path")}
    original = error.original_error
    while isinstance(
        original, GraphQLError
    ):  # the error about a variable is inside the error about its operation
        original = original.original_error
    if isinstance(original, OperationalError | PoolTimeoutError):
        logger.error("The database did not answer: %s", type(original).__name__)
        original = ServiceUnavailableError()
    if isinstance(original, ServiceError):
        return describe_service_error(original, place)
    if original is None:
        code, detail = _explain(error)
        return Problem(ErrorType.VALIDATION, code, detail, HTTPStatus.BAD_REQUEST, place=place)
    logger.error("An unexpected error", exc_info=original)
    detail = "An unexpected error. Nothing was changed."
    return Problem(ErrorType.APPLICATION, "error", detail, HTTPStatus.INTERNAL_SERVER_ERROR, place=place)


def _explain(error: GraphQLError) -> tuple[str, str]:
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


def describe_service_error(error: ServiceError, place: dict[str, Any] | None = None) -> Problem:
    """Return the problem for an expected failure."""
    status = status_of(type(error))
    match error:
        case ThrottledError() | ShareUsedError():
            wait = error.retry_after if isinstance(error, ThrottledError) else error.retry_seconds[1]
            return Problem(ErrorType.THROTTLING, error.code, error.detail, status, wait, place)
        case ServiceUnavailableError():
            return Problem(
                ErrorType.APPLICATION, error.code, error.detail, status, error.retry_seconds[0], place
            )
        case PermissionDeniedError():
            return Problem(ErrorType.AUTHENTICATION, error.code, error.detail, status, place=place)
        case UnauthenticatedError():
            # GraphQL has executed the document, so the HTTP status is no error.
            return Problem(ErrorType.AUTHENTICATION, error.code, error.detail, HTTPStatus.OK, place=place)
        case ParseError(errors=[ErrorItem(code=code)]):
            # A body that exceeds a bound has the code of the bound, because a GraphQL error has no list of
            # errors.
            return Problem(ErrorType.VALIDATION, code, error.detail, status, place=place)
    return Problem(ErrorType.VALIDATION, error.code, error.detail, status, place=place)


def describe_http_error(error: HTTPException) -> Problem:
    """Return the problem for a request that cannot be read, for example one with a body that is too large."""
    status = HTTPStatus(error.code or 400)
    code = HTTP_CODES.get(status, "invalid")
    return Problem(ErrorType.VALIDATION, code, error.description or status.phrase, status)
