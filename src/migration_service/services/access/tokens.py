"""Tokens (section 5): signed texts that contain their API key and their expiry.

Each request reads the API key and the session of its token, so revoking the key or ending the session ends
the token. A web process keeps both in memory for a second (decision 10), and revoking and ending wait until
every process has noticed. A token names its API key by prefix, because a number could mean another key in
another database.

The header of a token names the key that signed it by its `kid`, so that signing keys can be rotated. The
first key signs. The others are accepted as well: the next key until every process signs with it, and the
previous key until its tokens have expired.
"""

import time
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from functools import lru_cache
from hashlib import sha256
from typing import Any
from uuid import UUID, uuid4

import jwt
from sqlalchemy import select
from sqlalchemy.orm import Session

from migration_service.config import Settings
from migration_service.db.sql import SqlConnection
from migration_service.errors import ApiKeyRevokedError, UnauthenticatedError
from migration_service.models import ApiKey
from migration_service.origin import current_origin
from migration_service.services.access.api_keys import authenticate_api_key, note_use
from migration_service.services.access.callers import Caller
from migration_service.services.access.scopes import require_address
from migration_service.services.access.sessions import RefreshGrant, begin_session, exchange

#: Finds the caller of a token by the prefix of its key.
FIND_CALLER = """
    SELECT key.id, key.organisation_id, key.scopes, key.import_supplier_ids, key.allowed_networks,
           key.revoked_at IS NOT NULL AS revoked,
           extract(epoch FROM key.expires_at - now())::float8 AS seconds_left,
           session.id IS NOT NULL AND session.ended_at IS NULL AS session_holds
    FROM api_key AS key
    LEFT JOIN token_session AS session
         ON session.id = %(session_id)s::uuid AND session.api_key_id = key.id
    WHERE key.prefix = %(prefix)s
"""


class TokenKind(StrEnum):
    """The uses of a token."""

    #: Requests of the REST interface.
    ACCESS = "access"
    #: Obtaining another access token.
    REFRESH = "refresh"


@dataclass(frozen=True, slots=True)
class Tokens:
    """The tokens that a client has obtained."""

    token: str
    refresh_token: str
    #: Unix time at which the refresh token expires.
    refresh_expires_at: int
    #: The claims of `token`, which tell clients when it expires.
    payload: dict[str, Any]


def obtain_tokens(session: Session, settings: Settings, api_key: str) -> Tokens:
    """Exchange an API key for an access token and a refresh token, which starts a session.

    Raise UnauthenticatedError, and PermissionDeniedError if the key may not be used from this address.
    """
    key = authenticate_api_key(session, api_key)
    expires_at = int(time.time()) + settings.refresh_token_lifetime_seconds
    ends = datetime.fromtimestamp(expires_at, UTC)
    return _tokens(settings, key, begin_session(session, key, ends, settings.max_sessions))


def refresh_tokens(session: Session, settings: Settings, refresh_token: str) -> Tokens:
    """Exchange a refresh token for a new access token and the next refresh token.

    The next one expires when the first would have expired, so a stolen token is not valid for ever. Raise the
    errors of `obtain_tokens`.
    """
    claims = _verify(settings, refresh_token, TokenKind.REFRESH)
    key = session.scalar(select(ApiKey).where(ApiKey.prefix == claims["sub"]))
    if key is None or key.revoked_at:
        raise ApiKeyRevokedError(_REVOKED)
    if key.expires_at and key.expires_at <= datetime.now(UTC):
        raise UnauthenticatedError(_KEY_EXPIRED)
    require_address(key.allowed_networks, current_origin().address)
    note_use(key)
    return _tokens(settings, key, exchange(session, key, claims))


def authenticate_token(connection: SqlConnection, settings: Settings, token: str) -> Caller:
    """Return the sender of a request with this access token.

    Raise UnauthenticatedError with the reason if the token is not valid, and PermissionDeniedError if its key
    may not be used from this address.
    """
    claims = _verify(settings, token, TokenKind.ACCESS)
    rows = connection.execute(FIND_CALLER, {"prefix": claims["sub"], "session_id": claims["sid"]})
    if not rows or rows[0].revoked:
        raise ApiKeyRevokedError(_REVOKED)
    (row,) = rows
    if row.seconds_left is not None and row.seconds_left <= 0:
        raise UnauthenticatedError(_KEY_EXPIRED)
    if not row.session_holds:
        raise UnauthenticatedError("The session of the token was ended. Obtain a token with the API key.")
    require_address(row.allowed_networks, current_origin().address)
    return Caller(
        row.organisation_id,
        row.id,
        claims["sub"],
        None if row.scopes is None else frozenset(row.scopes),
        None if row.import_supplier_ids is None else frozenset(row.import_supplier_ids),
    )


_WRONG_KIND = {
    TokenKind.ACCESS: "This is a refresh token. Obtain an access token with it, and send that.",
    TokenKind.REFRESH: "This is an access token. Another one is obtained with the refresh token.",
}
_REVOKED = "The API key that the token was obtained with was revoked."
_KEY_EXPIRED = "The API key that the token was obtained with has expired."


def _tokens(settings: Settings, key: ApiKey, refresh: RefreshGrant) -> Tokens:
    refresh_expires_at = int(refresh.expires_at.timestamp())
    claims = {
        "iat": int(refresh.issued_at.timestamp()),
        "exp": refresh_expires_at,
        "sub": key.prefix,
        "kind": TokenKind.REFRESH.value,
        "jti": str(refresh.id),
        "sid": str(refresh.session_id),
    }
    now = int(time.time())
    payload = {
        "iat": now,
        # It never outlives its refresh token, whatever the settings.
        "exp": min(now + settings.token_lifetime_seconds, refresh_expires_at),
        "sub": key.prefix,
        "kind": TokenKind.ACCESS.value,
        "jti": str(uuid4()),
        "sid": str(refresh.session_id),
    }
    return Tokens(sign(settings, payload), sign(settings, claims), refresh_expires_at, payload)


def _verify(settings: Settings, token: str, kind: TokenKind) -> dict[str, Any]:
    try:
        claims = _read(token, settings.token_keys)
    except (jwt.InvalidTokenError, ValueError, TypeError, AttributeError) as error:
        raise UnauthenticatedError from error
    if claims["exp"] <= time.time():
        raise UnauthenticatedError("The token has expired. Obtain another one.")
    if claims["kind"] != kind:
        raise UnauthenticatedError(_WRONG_KIND[kind])
    return claims


_ALGORITHM = "HS256"
_CLAIMS = ("iat", "exp", "sub", "kind", "jti", "sid")


def sign(settings: Settings, claims: dict[str, Any]) -> str:
    """Return a token with these claims. The same claims always give the same token."""
    key = settings.secret_key
    return jwt.encode(claims, key, algorithm=_ALGORITHM, headers={"kid": _key_id(key)})


def _key_id(key: str) -> str:
    """Return the `kid` of a key, which reveals nothing about the key."""
    return sha256(b"migration-service kid " + key.encode()).hexdigest()[:12]


@lru_cache(maxsize=1_000)
def _read(token: str, keys: tuple[str, ...]) -> dict[str, Any]:
    """Return the claims of a token signed with one of the keys. Raise jwt.InvalidTokenError for any other.

    A signature never changes, so it is verified once. The caller checks whether the token is still valid.
    """
    kid = jwt.get_unverified_header(token).get("kid")
    key = next((key for key in keys if _key_id(key) == kid), None)
    if key is None:
        raise jwt.InvalidSignatureError
    claims: dict[str, Any] = jwt.decode(
        token,
        key,
        algorithms=[_ALGORITHM],
        # The clock of the signing web server may be slightly ahead.
        options={"require": list(_CLAIMS), "verify_iat": False, "verify_exp": False},
    )
    UUID(claims["sid"])
    return claims
