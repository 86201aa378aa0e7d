"""Signing tokens, and reading what was signed. A key is named by its `kid`, so that it can be exchanged.

The first key signs. The others are accepted, too: the next one before every process signs with it, and the
last one until its tokens have expired.
"""

from functools import lru_cache
from hashlib import sha256
from typing import Any

import jwt

from migration_service.config import Settings

_ALGORITHM = "HS256"
_CLAIMS = ("iat", "exp", "sub", "kind")


def sign(settings: Settings, claims: dict[str, Any]) -> str:
    """Return a token with these claims; the same claims make the same token."""
    key = settings.secret_key
    return jwt.encode(claims, key, algorithm=_ALGORITHM, headers={"kid": key_id(key)})


def read_claims(settings: Settings, token: str) -> dict[str, Any]:
    """Return what a token says that one of the keys signed. Raise jwt.InvalidTokenError for any other."""
    return _read(token, settings.token_keys)


def key_id(key: str) -> str:
    """Return the `kid` of a key, which tells nothing of the key."""
    return sha256(b"migration-service kid " + key.encode()).hexdigest()[:12]


@lru_cache(maxsize=1_000)
def _read(token: str, keys: tuple[str, ...]) -> dict[str, Any]:
    # A signature stays right for ever and is checked once. Whether the token still holds is for the caller.
    kid = jwt.get_unverified_header(token).get("kid")
    # Tokens that were signed before keys had a kid have none.
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
        # The clock of the web server that signed it may be a little ahead of ours.
        options={"require": list(_CLAIMS), "verify_iat": False, "verify_exp": False},
    )
    return claims
