"""Signing tokens and verifying signatures. Tokens name their key by its `kid`, so that keys can be rotated.

The first key signs. The others are accepted as well: the next key until every process signs with it, and the
previous key until its tokens have expired.
"""

from functools import lru_cache
from hashlib import sha256
from typing import Any

import jwt

from migration_service.config import Settings

_ALGORITHM = "HS256"
_CLAIMS = ("iat", "exp", "sub", "kind")


def sign(settings: Settings, claims: dict[str, Any]) -> str:
    """Return a token with these claims. The same claims always give the same token."""
    key = settings.secret_key
    return jwt.encode(claims, key, algorithm=_ALGORITHM, headers={"kid": key_id(key)})


def read_claims(settings: Settings, token: str) -> dict[str, Any]:
    """Return the claims of a token signed with one of the keys. Raise jwt.InvalidTokenError for any other."""
    return _read(token, settings.token_keys)


def key_id(key: str) -> str:
    """Return the `kid` of a key, which reveals nothing about the key."""
    return sha256(b"migration-service kid " + key.encode()).hexdigest()[:12]


@lru_cache(maxsize=1_000)
def _read(token: str, keys: tuple[str, ...]) -> dict[str, Any]:
    # A signature never changes, so it is verified once. The caller checks whether the token is still valid.
    kid = jwt.get_unverified_header(token).get("kid")
    # Tokens signed before kids were introduced have none.
    fitting = [key for key in keys if kid is None or kid == key_id(key)]
    for key in fitting:
        try:
            return _decode(token, key)
        except jwt.InvalidSignatureError:
            continue
    raise jwt.InvalidSignatureError


def _decode(token: str, key: str) -> dict[str, Any]:
    claims: dict[str, Any] = jwt.decode(
        token,
        key,
        algorithms=[_ALGORITHM],
        # The clock of the signing web server may be slightly ahead.
        options={"require": list(_CLAIMS), "verify_iat": False, "verify_exp": False},
    )
    return claims
