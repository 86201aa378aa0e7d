"""The bodies of errors (section 7.2), and the only table from errors to HTTP statuses."""

from enum import StrEnum
from http import HTTPStatus
from typing import Any

from migration_service import errors

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
RETRY_LATER_CODES = (
    errors.AccountImportInProgressError.code,
    errors.IdempotencyRequestInProgressError.code,
)


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
    items = [item.to_dict() for item in error.errors]
    return {"detail": error.detail, "code": error.code, "errors": items, **error.extra_fields()}
