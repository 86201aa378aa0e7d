"""Failures in GraphQL's shape: `extensions` has errorType, errorCode, errorDescription."""

import logging
from dataclasses import dataclass
from enum import StrEnum
from http import HTTPStatus
from typing import Any

from graphql import GraphQLError, GraphQLSyntaxError
from sqlalchemy.exc import OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from werkzeug.exceptions import HTTPException

from migration_service.blueprints.errors import HTTP_CODES, status_of
from migration_service.errors import (
    PermissionDeniedError,
    ServiceError,
    ServiceUnavailableError,
    ThrottledError,
    UnauthenticatedError,
)

logger = logging.getLogger(__name__)


class ErrorType(StrEnum):
    """`errorType` of a GraphQL error: what has to be done about it."""

    #: The request is not what it should be: change it.
    VALIDATION = "VALIDATION"
    #: The API key or the refresh token does not hold: use another one.
    AUTHENTICATION = "AUTHENTICATION"
    #: Too many failed attempts: wait.
    THROTTLING = "THROTTLING"
    #: The service cannot answer right now: try again.
    APPLICATION = "APPLICATION"


@dataclass(frozen=True, slots=True)
class Problem:
    """One failure: its GraphQL error, and the HTTP status if nothing else came of the request."""

    type: ErrorType
    code: str
    detail: str
    status: HTTPStatus
    #: Seconds to wait, where waiting helps.
    retry_after: int | None = None
    #: `locations` and `path` of the GraphQL error.
    place: dict[str, Any] | None = None

    def to_dict(self) -> dict[str, Any]:
        """The object of GraphQL's `errors`."""
        extensions = {
            "errorType": self.type,
            "errorCode": self.code,
            "errorDescription": self.detail,
        }
        return {"message": self.detail, **(self.place or {}), "extensions": extensions}


def describe_graphql_error(error: GraphQLError) -> Problem:
    """What to answer for an error that GraphQL found, or that a resolver raised.

    The text of what nobody expected goes into the log, never into the answer.
    """
    place = {name: value for name, value in error.formatted.items() if name in ("locations", "path")}
    original = error.original_error
    while isinstance(original, GraphQLError):  # a faulty variable, within the error of its operation
        original = original.original_error
    if isinstance(original, OperationalError | PoolTimeoutError):
        logger.error("The database did not answer: %s", type(original).__name__)
        original = ServiceUnavailableError()
    if isinstance(original, ServiceError):
        return describe_service_error(original, place)
    if original is None:
        code = "parse_error" if isinstance(error, GraphQLSyntaxError) else "invalid"
        return Problem(ErrorType.VALIDATION, code, error.message, HTTPStatus.BAD_REQUEST, place=place)
    logger.error("An error that nobody expected", exc_info=original)
    detail = "An error that was not expected. Nothing was changed."
    return Problem(ErrorType.APPLICATION, "error", detail, HTTPStatus.INTERNAL_SERVER_ERROR, place=place)


def describe_service_error(error: ServiceError, place: dict[str, Any] | None = None) -> Problem:
    """What to answer for an expected failure."""
    status = status_of(type(error))
    match error:
        case ThrottledError():
            return Problem(ErrorType.THROTTLING, error.code, error.detail, status, error.retry_after, place)
        case ServiceUnavailableError():
            return Problem(ErrorType.APPLICATION, error.code, error.detail, status, 1, place)
        case PermissionDeniedError():
            return Problem(ErrorType.AUTHENTICATION, error.code, error.detail, status, place=place)
        case UnauthenticatedError():
            # GraphQL's answer to the document is complete: HTTP has nothing to complain of.
            return Problem(ErrorType.AUTHENTICATION, error.code, error.detail, HTTPStatus.OK, place=place)
    return Problem(ErrorType.VALIDATION, error.code, error.detail, status, place=place)


def describe_http_error(error: HTTPException) -> Problem:
    """What to answer for a request that cannot be read, as one with a body that is too large."""
    status = HTTPStatus(error.code or 400)
    code = HTTP_CODES.get(status, "invalid")
    return Problem(ErrorType.VALIDATION, code, error.description or status.phrase, status)
