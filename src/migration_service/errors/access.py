"""Errors about API keys and tokens (section 5)."""

from migration_service.errors.base import InvalidError, ServiceError


class HostNotAllowedError(InvalidError):
    """The request names a host that this service does not answer for."""

    code = "host_not_allowed"
    default_detail = "The Host header names a host that this service does not answer for."
    remedy = "Use the address of the service that its operator gave you."


class UnauthenticatedError(ServiceError):
    """The token, or the API key, is not valid."""

    code = "authentication_failed"
    default_detail = "The token is not valid."
    remedy = "Obtain a new token, and send the request again."


class NotAuthenticatedError(UnauthenticatedError):
    """The request has no token."""

    code = "not_authenticated"
    default_detail = "The request has no token. Send `Authorization: Token <token>`."
    remedy = "Send `Authorization: Token <token>`."


class ThrottledError(ServiceError):
    """Too many attempts to obtain a token have failed.

    `retry_after` is the time to wait in seconds.
    """

    code = "throttled"
    default_detail = "Too many attempts have failed. Try again later."
    remedy = "Wait for the number of seconds in the detail, then obtain a token with the right key."

    def __init__(self, retry_after: int = 60) -> None:
        self.retry_after = retry_after
        super().__init__(f"Too many attempts have failed. Try again in {retry_after} seconds.")
