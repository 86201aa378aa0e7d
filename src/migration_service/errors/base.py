"""Errors of the service that belong to no subject."""

from migration_payloads.errors import InvalidError, ServiceError


class OperatorError(InvalidError):
    """A command, or a form of the console, cannot be carried out as it is. Clients never get this error."""


class NotFoundError(ServiceError):
    """The object that a path names does not exist, or belongs to another organisation."""

    code = "not_found"
    default_detail = "Nothing exists at this path."
    remedy = "Check the path."


class ServiceUnavailableError(ServiceError):
    """A part of the service that this request needs is unavailable. Nothing was changed."""

    code = "service_unavailable"
    default_detail = "The service cannot do this right now. Nothing was changed. Try again."
    remedy = "Send the same request again after the number of seconds in `Retry-After`."


class IdempotencyKeyReusedError(InvalidError):
    """The Idempotency-Key was used before, for another request."""

    code = "idempotency_key_reused"
    default_detail = "This Idempotency-Key was used for another request. Use a new key for each request."
    remedy = "Use a new key for another body, or for other parameters."


class IdempotencyRequestInProgressError(InvalidError):
    """The first request with this Idempotency-Key is still running."""

    code = "idempotency_request_in_progress"
    default_detail = "The first request with this Idempotency-Key is still running. Send it again later."
    remedy = "Send the same request with the same key again after the seconds of `Retry-After`."
