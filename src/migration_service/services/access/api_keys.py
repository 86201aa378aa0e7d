"""API keys, with which an organisation obtains its tokens (section 5).

A key is `ami_<10 characters>_<43 characters>`. The part before the second underscore is its prefix, which
identifies it and may be shown. Of the whole key only the SHA-256 is stored.
"""

import hmac
import re
import secrets
import string
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from hashlib import sha256

from sqlalchemy import select
from sqlalchemy.orm import Session

from migration_service.errors import ApiKeyNotFoundError, UnauthenticatedError
from migration_service.models import ApiKey, Organisation
from migration_service.services.setup.organisations import get_organisation

#: The precision of `last_used_at`: it is written at most once in this time, however often a key is used.
_USE_NOTED_EVERY = timedelta(minutes=1)

_PREFIX = re.compile(r"ami_[a-z0-9]{10}", re.ASCII)
_KEY = re.compile(rf"({_PREFIX.pattern})_[A-Za-z0-9]{{43}}", re.ASCII)
_PREFIX_CHARACTERS = string.ascii_lowercase + string.digits
_SECRET_CHARACTERS = string.ascii_letters + string.digits  # 43 of them are 256 bits


def issue_api_key(session: Session, *, organisation_name: str) -> str:
    """Create an API key and return its text, which is stored nowhere.

    Raise OrganisationNotFoundError if the organisation does not exist.
    """
    organisation = get_organisation(session, organisation_name)
    prefix = f"ami_{_random(_PREFIX_CHARACTERS, 10)}"
    api_key = f"{prefix}_{_random(_SECRET_CHARACTERS, 43)}"
    session.add(ApiKey(organisation_id=organisation.id, prefix=prefix, key_sha256=_hash(api_key)))
    session.flush()
    return api_key


def find_prefix(api_key: str) -> str | None:
    """Return the prefix of a text that has the form of an API key, or None if it does not."""
    key = _KEY.fullmatch(api_key)
    return key.group(1) if key else None


def authenticate_api_key(session: Session, api_key: str) -> ApiKey:
    """Return the API key with this text, and record its use.

    Raise UnauthenticatedError with the same message whether it is unknown, wrong or revoked.
    """
    found = None
    if prefix := find_prefix(api_key):
        found = session.scalar(select(ApiKey).where(ApiKey.prefix == prefix))
    if found is None or not hmac.compare_digest(found.key_sha256, _hash(api_key)) or found.revoked_at:
        raise UnauthenticatedError("The API key is not valid, or it was revoked.")
    note_use(found)
    return found


def note_use(api_key: ApiKey) -> None:
    """Record that a token was obtained with the key."""
    now = datetime.now(UTC)
    if api_key.last_used_at is None or now - api_key.last_used_at > _USE_NOTED_EVERY:
        api_key.last_used_at = now


def revoke_api_key(session: Session, prefix: str) -> ApiKey:
    """Revoke the key with this prefix, and with it every token that was obtained with it.

    The whole key may be given instead of its prefix. Revoking twice changes nothing.
    Raise ApiKeyNotFoundError if there is none.
    """
    prefix = find_prefix(prefix) or prefix
    api_key = None
    if _PREFIX.fullmatch(prefix):
        api_key = session.scalar(select(ApiKey).where(ApiKey.prefix == prefix))
    if api_key is None:
        # A text without the form of a prefix may be a mistyped key, so the error does not repeat it.
        raise ApiKeyNotFoundError(found=prefix if _PREFIX.fullmatch(prefix) else None)
    if api_key.revoked_at is None:
        api_key.revoked_at = datetime.now(UTC)
    return api_key


def list_api_keys(session: Session) -> Sequence[tuple[ApiKey, str]]:
    """Return every API key with its organisation's name, oldest first."""
    rows = session.execute(select(ApiKey, Organisation.name).join(Organisation).order_by(ApiKey.id)).all()
    return [(api_key, organisation_name) for api_key, organisation_name in rows]


def _random(characters: str, length: int) -> str:
    return "".join(secrets.choice(characters) for _ in range(length))


def _hash(api_key: str) -> bytes:
    return sha256(api_key.encode()).digest()


def get_api_key_name(session: Session, api_key_id: int) -> str:
    """Return the name by which an API key is recorded as the author of something."""
    return f"API key {session.get_one(ApiKey, api_key_id).prefix}"
