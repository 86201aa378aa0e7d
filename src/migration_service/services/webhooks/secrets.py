"""The secrets with which messages are signed, and the signature, as Standard Webhooks defines them."""

import base64
import hashlib
import hmac
import secrets
from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING
from uuid import UUID

from sqlalchemy import delete, func, literal, select, update
from sqlalchemy.orm import Session

from migration_service.config import SettingsError
from migration_service.models import WebhookSecret

if TYPE_CHECKING:
    from cryptography.fernet import MultiFernet

_PREFIX = "whsec_"
_SEALED = "fernet:"
#: The number of random bytes of a secret. The standard allows 24 to 64.
_BYTES = 32


def _read_keys(keys: Sequence[str]) -> "MultiFernet":
    # Imported here, because most workers encrypt nothing: it is 6 MB of each.
    from cryptography.fernet import Fernet, MultiFernet  # noqa: PLC0415

    return MultiFernet([Fernet(key) for key in keys])


class Seal:
    """Encrypts secrets for the database, with the keys of the settings."""

    def __init__(self, keys: Sequence[str]) -> None:
        """Take the keys. The first encrypts, and each decrypts. Without any, nothing is encrypted."""
        self._keys = _read_keys(keys) if keys else None

    def close(self, secret: str) -> str:
        """Return a secret as it is stored."""
        return _SEALED + self._keys.encrypt(secret.encode()).decode() if self._keys else secret

    def open(self, sealed: str) -> str:
        """Return a stored secret. Raise SettingsError if the settings do not have its key."""
        if not sealed.startswith(_SEALED):
            return sealed
        missing = "MIGRATION_SERVICE_WEBHOOK_SECRET_KEYS does not have the key of this secret."
        if self._keys is None:
            raise SettingsError(missing)
        from cryptography.fernet import InvalidToken  # noqa: PLC0415

        try:
            return self._keys.decrypt(sealed.removeprefix(_SEALED)).decode()
        except InvalidToken:
            raise SettingsError(missing) from None


def add_secret(session: Session, endpoint_id: UUID, seal: Seal, *, overlap: timedelta) -> str:
    """Give an endpoint a new secret and return it: `whsec_` and random bytes in Base64.

    The one before it expires after the overlap. Until then messages have a signature of both, so that the
    receiver can change its secret at any time. Older ones are removed, so no more than two are valid at once.
    The caller has locked the endpoint.
    """
    of_endpoint = WebhookSecret.endpoint_id == endpoint_id
    kept = select(func.max(WebhookSecret.id)).where(of_endpoint, literal(bool(overlap))).scalar_subquery()
    session.execute(delete(WebhookSecret).where(of_endpoint, WebhookSecret.id.is_distinct_from(kept)))
    ends = func.least(WebhookSecret.expires_at, func.now() + overlap)
    session.execute(update(WebhookSecret).where(of_endpoint).values(expires_at=ends))
    secret = _PREFIX + base64.b64encode(secrets.token_bytes(_BYTES)).decode()
    session.add(WebhookSecret(endpoint_id=endpoint_id, sealed=seal.close(secret)))
    return secret


def sign(body: bytes, *, message_id: str, timestamp: int, secrets: Sequence[str]) -> str:
    """Return the value of `webhook-signature`: a signature with each secret, separated by spaces."""
    signed = f"{message_id}.{timestamp}.".encode() + body
    keys = (base64.b64decode(secret.removeprefix(_PREFIX)) for secret in secrets)
    digests = (hmac.new(key, signed, hashlib.sha256).digest() for key in keys)
    return " ".join(f"v1,{base64.b64encode(digest).decode()}" for digest in digests)
