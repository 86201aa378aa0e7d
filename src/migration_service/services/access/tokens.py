"""Tokens (section 5): signed texts with the API key that they were obtained with, and the time they expire.

Nothing is stored for a token. Each request reads the API key's row, so that revoking a key invalidates its
tokens at once. A token names its key by prefix, because another database could use the same id for another
key.
"""

import secrets
import time
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Any

import jwt
from sqlalchemy import select
from sqlalchemy.orm import Session

from migration_service.config import Settings
from migration_service.db.statements import Statements
from migration_service.errors import UnauthenticatedError
from migration_service.models import ApiKey
from migration_service.services.access.api_keys import authenticate_api_key, note_use

_ALGORITHM = "HS256"
_CLAIMS = ("iat", "exp", "sub", "kind")

_FIND_CALLER = "SELECT id, organisation_id FROM api_key WHERE prefix = %(prefix)s AND revoked_at IS NULL"


class TokenKind(StrEnum):
    """What a token can be used for."""

    #: Requests of the REST interface.
    ACCESS = "access"
    #: Obtaining another access token.
    REFRESH = "refresh"


@dataclass(frozen=True, slots=True)
class Caller:
    """The sender of a request, as identified by its token."""

    organisation_id: int
    api_key_id: int


@dataclass(frozen=True, slots=True)
class Tokens:
    """The tokens that a client has obtained."""

    token: str
    refresh_token: str
    #: Unix time at which the refresh token expires.
    refresh_expires_at: int
    #: The claims of `token`, for clients that want to know when it ends.
    payload: dict[str, Any]


def obtain_tokens(session: Session, settings: Settings, api_key: str) -> Tokens:
    """Exchange an API key for an access token and a refresh token. Raise UnauthenticatedError if invalid."""
    key = authenticate_api_key(session, api_key)
    lifetime = settings.refresh_token_lifetime_seconds
    refresh_token, claims = _sign(settings, key.prefix, TokenKind.REFRESH, int(time.time()) + lifetime)
    return _tokens(settings, key.prefix, refresh_token, claims["exp"])


def refresh_tokens(session: Session, settings: Settings, refresh_token: str) -> Tokens:
    """Exchange a refresh token for another access token. Raise UnauthenticatedError if it is invalid.

    The refresh token stays the same and its expiry is not extended, so that a stolen one cannot be used for
    ever.
    """
    claims = _verify(settings, refresh_token, TokenKind.REFRESH)
    valid = ApiKey.revoked_at.is_(None)
    key = session.scalar(select(ApiKey).where(ApiKey.prefix == claims["sub"], valid))
    if key is None:
        raise UnauthenticatedError(_REVOKED)
    note_use(key)
    return _tokens(settings, key.prefix, refresh_token, claims["exp"])


def authenticate_token(statements: Statements, settings: Settings, token: str) -> Caller:
    """Return the sender of a request with this access token. Raise UnauthenticatedError if it is invalid."""
    claims = _verify(settings, token, TokenKind.ACCESS)
    rows = statements.execute(_FIND_CALLER, {"prefix": claims["sub"]})
    if not rows:
        raise UnauthenticatedError(_REVOKED)
    return Caller(organisation_id=rows[0].organisation_id, api_key_id=rows[0].id)


_WRONG_KIND = {
    TokenKind.ACCESS: "This is a refresh token. Obtain an access token with it, and send that.",
    TokenKind.REFRESH: "This is an access token. Send the refresh token instead.",
}
_REVOKED = "The API key that the token was obtained with was revoked."


def _tokens(settings: Settings, prefix: str, refresh_token: str, refresh_expires_at: int) -> Tokens:
    # Never later than its refresh token, whatever the lifetimes are set to.
    expires_at = min(int(time.time()) + settings.token_lifetime_seconds, refresh_expires_at)
    token, payload = _sign(settings, prefix, TokenKind.ACCESS, expires_at)
    return Tokens(token, refresh_token, refresh_expires_at, payload)


def _sign(settings: Settings, prefix: str, kind: TokenKind, expires_at: int) -> tuple[str, dict[str, Any]]:
    claims = {
        "iat": int(time.time()),
        "exp": expires_at,
        "sub": prefix,
        "kind": kind.value,
        "jti": secrets.token_urlsafe(12),
    }
    return jwt.encode(claims, settings.secret_key, algorithm=_ALGORITHM), claims


def _verify(settings: Settings, token: str, kind: TokenKind) -> dict[str, Any]:
    try:
        claims = _read_claims(token, settings.secret_key)
    # Deeply nested JSON in a forged header makes the parser raise RecursionError.
    except (jwt.InvalidTokenError, RecursionError) as error:
        raise UnauthenticatedError from error
    if claims["exp"] <= time.time():
        raise UnauthenticatedError("The token has expired. Obtain another one.")
    if claims["kind"] != kind:
        raise UnauthenticatedError(_WRONG_KIND[kind])
    return claims


@lru_cache(maxsize=1_000)
def _read_claims(token: str, secret_key: str) -> dict[str, Any]:
    """Return the claims of a token that this service signed. Raise jwt.InvalidTokenError for any other.

    The signature never changes, so the result is cached. The caller checks whether the token has expired.
    """
    claims: dict[str, Any] = jwt.decode(
        token,
        secret_key,
        algorithms=[_ALGORITHM],
        # The clock of the web server that signed it may be slightly ahead of this one's.
        options={"require": list(_CLAIMS), "verify_iat": False, "verify_exp": False},
    )
    return claims
