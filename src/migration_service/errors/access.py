"""Errors about API keys, tokens, permissions and operators (section 5)."""

from uuid import UUID

from migration_payloads.errors import InvalidError, ServiceError
from migration_service.errors.base import NotFoundError, OperatorError


class HostNotAllowedError(InvalidError):
    """The request names a host that this service does not answer for."""

    code = "host_not_allowed"
    default_detail = "The Host header names a host that this service does not answer for."
    remedy = "Use the address that the operator of the service gave you."


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


class ApiKeyRevokedError(UnauthenticatedError):
    """The API key was revoked, or the token was obtained with such a key."""


class RefreshTokenReusedError(UnauthenticatedError):
    """The refresh token was exchanged before. Its session ends.

    `session_id` is that session.
    """

    def __init__(self, session_id: UUID | None = None) -> None:
        self.session_id = session_id
        super().__init__(
            "The refresh token was used before, and its session was ended. Obtain a token with the API key."
        )


class TooManySessionsError(UnauthenticatedError):
    """The session of the refresh token was ended, because its API key has started too many others since."""

    code = "too_many_sessions"
    default_detail = (
        "The session of the token was ended, because its API key has started too many others since. "
        "Obtain a token with the API key."
    )
    remedy = "Obtain a token with the API key, and use it until it expires, instead of one for each request."


class PermissionDeniedError(ServiceError):
    """The API key is valid, but may not be used for this.

    The detail names the scope, the import supplier or the address for which the key is not valid.
    """

    code = "permission_denied"
    default_detail = "The API key may not be used for this."
    remedy = "Use a key with the permission that the detail names, or ask the operator for one."


class TokenSessionNotFoundError(NotFoundError):
    """The session does not exist, or belongs to another organisation."""

    code = "session_not_found"
    default_detail = "The session does not exist."
    detail_with_found = "Session {found} does not exist."
    remedy = "Check the id with the list of sessions, or with `migration-service api-keys sessions PREFIX`."


class NetworkInvalidError(OperatorError):
    """A command names a network that is not valid."""

    code = "network_invalid"
    default_detail = "This is not a network."
    detail_with_found = "{found} is not a network. Write it as 192.0.2.0/24, 192.0.2.7 or 2001:db8::/48."
    remedy = "Write the network in the form `192.0.2.0/24`, with no bits set after the prefix."


class OperatorNotFoundError(OperatorError):
    """A command names an operator that does not exist."""

    code = "operator_not_found"
    default_detail = "The operator does not exist."
    detail_with_found = "Operator {found} does not exist."
    remedy = "Check the name with `migration-service operators list`."


class AuditCursorError(OperatorError):
    """A command continues after a page of the audit that does not exist."""

    code = "audit_cursor_invalid"
    default_detail = "This is not a cursor that `audit list` printed."
    detail_with_found = "{found} is not a cursor that `audit list` printed."
    remedy = "Copy the whole cursor, with its quotes."


class PasswordInvalidError(OperatorError):
    """The password is too short or too long."""

    code = "password_invalid"
    default_detail = "The password must have 12 to 256 characters."
    remedy = "Choose a password of 12 to 256 characters."


class ThrottledError(ServiceError):
    """Too many attempts to obtain a token have failed.

    `retry_after` is the time to wait in seconds.
    """

    code = "throttled"
    default_detail = "Too many attempts have failed. Try again later."
    remedy = "Wait for the number of seconds in `Retry-After`, then obtain a token with the right key."

    def __init__(self, retry_after: int = 60) -> None:
        self.retry_after = retry_after
        super().__init__(f"Too many attempts have failed. Try again in {retry_after} seconds.")


class ShareUsedError(ServiceError):
    """The organisation uses its whole share of a resource that others need as well (`shares`)."""

    code = "share_used"
    default_detail = (
        "Your organisation has used its share of the service. Send fewer requests at the same time."
    )
    remedy = (
        "Send the same request again after the number of seconds in `Retry-After`, and fewer at the same "
        "time."
    )
    retry_seconds = (3, 6)
