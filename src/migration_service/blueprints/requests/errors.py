"""The bodies of errors (section 7.2), the only table from errors to HTTP statuses, and the error handlers."""

import logging
import random
from collections.abc import Callable
from enum import StrEnum
from http import HTTPStatus
from typing import Any

from flask import Flask, Response, jsonify, request
from sqlalchemy.exc import IntegrityError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from werkzeug.exceptions import HTTPException

from migration_payloads.schemas.base import limit_errors
from migration_payloads.schemas.json import encode_json
from migration_service import errors

logger = logging.getLogger(__name__)

#: The status of each class of errors. For a class that is not listed, its nearest listed ancestor counts.
STATUS: dict[type[errors.ServiceError], HTTPStatus] = {
    errors.InvalidError: HTTPStatus.BAD_REQUEST,
    errors.BatchFileTooLargeError: HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    errors.UnauthenticatedError: HTTPStatus.UNAUTHORIZED,
    errors.PermissionDeniedError: HTTPStatus.FORBIDDEN,
    errors.NotFoundError: HTTPStatus.NOT_FOUND,
    errors.ConcurrencyLimitReachedError: HTTPStatus.TOO_MANY_REQUESTS,
    errors.ShareUsedError: HTTPStatus.TOO_MANY_REQUESTS,
    errors.StagedQuotaReachedError: HTTPStatus.TOO_MANY_REQUESTS,
    errors.ThrottledError: HTTPStatus.TOO_MANY_REQUESTS,
    errors.TooManyUploadsError: HTTPStatus.TOO_MANY_REQUESTS,
    errors.BatchQuotaError: HTTPStatus.TOO_MANY_REQUESTS,
    errors.PaymentVendorUnavailableError: HTTPStatus.INTERNAL_SERVER_ERROR,
    errors.ServiceUnavailableError: HTTPStatus.SERVICE_UNAVAILABLE,
}

#: The code of errors that Flask itself raises.
HTTP_CODES = {
    400: "parse_error",
    404: "not_found",
    405: "method_not_allowed",
    411: "length_required",
    413: "request_too_large",
    414: "uri_too_long",
    415: "unsupported_media_type",
    431: "headers_too_large",
}

#: The codes of 400s for which a later retry can succeed.
RETRY_LATER_CODES = (errors.AccountImportInProgressError.code, errors.IdempotencyRequestInProgressError.code)

_RETRY_LATER = (HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE)


class ErrorType(StrEnum):
    """The `errorType` of a GraphQL error: the kind of remedy."""

    #: The request is invalid: change it.
    VALIDATION = "VALIDATION"
    #: The API key or the refresh token is not valid: use another one.
    AUTHENTICATION = "AUTHENTICATION"
    #: Too many failed attempts: wait.
    THROTTLING = "THROTTLING"
    #: The service cannot answer right now: try again.
    APPLICATION = "APPLICATION"


def status_of(error: type[errors.ServiceError]) -> HTTPStatus:
    """Return the HTTP status of a class of errors."""
    return next(STATUS[ancestor] for ancestor in error.__mro__ if ancestor in STATUS)


def error_body(error: errors.ServiceError) -> dict[str, Any]:
    """Return the body of an error: detail, code, errors, and the extra fields of the error."""
    items = [item.to_dict() for item in limit_errors(error.errors)]
    return {"detail": error.detail, "code": error.code, "errors": items, **error.extra_fields()}


def register_error_handlers(
    app: Flask,
    note_refused: Callable[[errors.PermissionDeniedError], None],
    find_removed: Callable[..., errors.ServiceError | None],
) -> None:
    """Answer every error of `app` with the body of section 7.2.

    `note_refused` is told of denied permissions. `find_removed` is that of `services.setup.names`.
    """

    def permission_denied(error: errors.PermissionDeniedError) -> Response:
        note_refused(error)
        return _service_error(error)

    def refused_by_database(error: IntegrityError) -> Response:
        removed = find_removed(error, in_path="import_supplier_code" in (request.view_args or ()))
        return _unexpected_error(error) if removed is None else _service_error(removed)

    app.register_error_handler(errors.ServiceError, _service_error)
    app.register_error_handler(errors.PermissionDeniedError, permission_denied)
    app.register_error_handler(HTTPException, _http_error)
    app.register_error_handler(IntegrityError, refused_by_database)
    app.register_error_handler(OperationalError, _database_unavailable)
    app.register_error_handler(PoolTimeoutError, _database_unavailable)
    app.register_error_handler(Exception, _unexpected_error)


def _service_error(error: errors.ServiceError) -> Response:
    status = status_of(type(error))
    # Not Flask's encoder, so that the numbers in a returned transaction stay numbers.
    response = Response(encode_json(error_body(error)), status, mimetype="application/json")
    if status == HTTPStatus.UNAUTHORIZED:
        response.headers["WWW-Authenticate"] = "Token"
    if status in _RETRY_LATER or error.code in RETRY_LATER_CODES:
        # Random, so that clients that are refused together do not retry together.
        response.headers["Retry-After"] = str(random.randint(*error.retry_seconds))  # noqa: S311
    return response


_NO_SUCH_PATH = (
    "There is nothing at this path. /v1/openapi.json describes every path, and /v1/docs/ shows it as a page."
)


def _http_error(error: HTTPException) -> Response:
    status = error.code or 500
    code = HTTP_CODES.get(status, "error")
    allowed = error.get_response().headers.get("Allow")
    detail = _NO_SUCH_PATH if status == HTTPStatus.NOT_FOUND else error.description
    if allowed:
        detail = (
            f"This path does not take {request.method}. It takes {' and '.join(sorted(allowed.split(', ')))}."
        )
    answer = _plain_answer(status, code, detail or HTTPStatus(status).phrase)
    if allowed:
        answer.headers["Allow"] = allowed
    return answer


def _database_unavailable(error: Exception) -> Response:
    logger.error("The database did not answer: %s", type(error).__name__)
    return _service_error(errors.ServiceUnavailableError())


def _unexpected_error(_error: Exception) -> Response:
    logger.exception("An unexpected error")
    return _plain_answer(
        HTTPStatus.INTERNAL_SERVER_ERROR, "error", "An unexpected error. Nothing was changed."
    )


def _plain_answer(status: int, code: str, detail: str) -> Response:
    items = [errors.ErrorItem(code, detail).to_dict()]
    answer = jsonify({"detail": detail, "code": code, "errors": items})
    answer.status_code = status
    return answer
