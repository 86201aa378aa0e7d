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
