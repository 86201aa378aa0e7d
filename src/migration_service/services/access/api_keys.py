"""API keys, which organisations exchange for tokens (section 5).

A key is `ami_<10 characters>_<43 characters>`. The part before the second underscore is its prefix, which
identifies the key and may be shown. Only the SHA-256 of the whole key is stored.
"""

import hmac
import re
import secrets
import string
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any

from sqlalchemy import select, text, update
from sqlalchemy.orm import Session

from migration_payloads.moments import write_moment
from migration_service import errors
from migration_service.models import ApiKey, ImportSupplier, Organisation, WebhookEndpoint
from migration_service.origin import current_origin
from migration_service.schemas.events import EventType
from migration_service.services.access.scopes import Scope, parse_network, require_address
from migration_service.services.audit.entries import AuditAction, record_about
from migration_service.services.events import recording as events
from migration_service.services.setup.names import check_name
from migration_service.services.setup.organisations import get_organisation
from migration_service.services.setup.suppliers import get_import_supplier

#: The precision of `last_used_at`, which is written at most once in this time.
_USE_NOTED_EVERY = timedelta(minutes=1)

_NOT_VALID = "The API key is not valid, or it was revoked."

_PREFIX = re.compile(r"ami_[a-z0-9]{10}", re.ASCII)
_KEY = re.compile(rf"({_PREFIX.pattern})_[A-Za-z0-9]{{43}}", re.ASCII)
_PREFIX_CHARACTERS = string.ascii_lowercase + string.digits
_SECRET_CHARACTERS = string.ascii_letters + string.digits  # 43 of them are 256 bits


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyLimits:
    """The limits on the use of a key. None means no limit."""

    scopes: Collection[Scope] | None = None
    #: Codes of import suppliers of the key's organisation.
    import_suppliers: Collection[str] | None = None
    #: Networks, such as `192.0.2.0/24`.
    networks: Collection[str] | None = None
    expires_at: datetime | None = None


def issue_api_key(
    session: Session, *, organisation_name: str, name: str | None = None, limits: KeyLimits | None = None
) -> str:
    """Create an API key and return it. It is never shown again.

    Raise OrganisationNotFoundError, NameInvalidError, NetworkInvalidError, and ImportSupplierNotFoundError
    for another organisation's supplier.
    """
    organisation = get_organisation(session, organisation_name)
    limits = limits or KeyLimits()
    if name is not None:
        check_name(name, "name of an API key")
    api_key, row = _make(organisation.id)
    row.name = name
    row.scopes = None if limits.scopes is None else [scope.value for scope in limits.scopes]
    row.import_supplier_ids = _supplier_ids(session, organisation.id, limits.import_suppliers)
    row.allowed_networks = None if limits.networks is None else [parse_network(it) for it in limits.networks]
    row.expires_at = limits.expires_at
    session.add(row)
    session.flush()
    details = {
        "scopes": row.scopes,
        "import_suppliers": row.import_supplier_ids,
        "networks": row.allowed_networks,
    }
    record_about(session, AuditAction.API_KEY_ISSUED, row, details)
    return api_key


def roll_api_key(session: Session, prefix: str, overlap: timedelta) -> tuple[str, ApiKey]:
    """Create a key with the same name and limits, and let the old one expire after `overlap`.

    Its webhooks become those of the new one.

    Return the new key and the old one's row. The successor expires when the old one would have expired. Raise
    ApiKeyNotFoundError, and ApiKeyEndedError if the key was revoked or has expired.
    """
    old = get_api_key(session, prefix)
    now = datetime.now(UTC)
    if old.revoked_at or (old.expires_at and old.expires_at <= now):
        raise errors.ApiKeyEndedError(found=old.prefix)
    api_key, new = _make(old.organisation_id)
    new.name, new.scopes, new.expires_at = old.name, old.scopes, old.expires_at
    new.import_supplier_ids, new.allowed_networks = old.import_supplier_ids, old.allowed_networks
    session.add(new)
    old.expires_at = min(now + overlap, old.expires_at or now + overlap)
    details = {"successor": new.prefix, "expires_at": old.expires_at.isoformat()}
    record_about(session, AuditAction.API_KEY_ROLLED, old, details)
    session.flush()
    of_old = WebhookEndpoint.api_key_id == old.id
    session.execute(update(WebhookEndpoint).where(of_old).values(api_key_id=new.id))
    return api_key, old


def find_prefix(api_key: str) -> str | None:
    """Return the prefix of a text that has the form of an API key, or None if it does not."""
    key = _KEY.fullmatch(api_key)
    return key.group(1) if key else None


def authenticate_api_key(session: Session, api_key: str) -> ApiKey:
    """Return the API key with this text, and record its use.

    Raise UnauthenticatedError, with the same message whether the key is unknown, wrong, revoked or expired,
    and PermissionDeniedError if it may not be used from this address.
    """
    found = None
    if prefix := find_prefix(api_key):
        found = session.scalar(select(ApiKey).where(ApiKey.prefix == prefix))
    if found is None or not hmac.compare_digest(found.key_sha256, _hash(api_key)):
        raise errors.UnauthenticatedError(_NOT_VALID)
    if found.revoked_at:
        raise errors.ApiKeyRevokedError(_NOT_VALID)
    if found.expires_at and found.expires_at <= datetime.now(UTC):
        raise errors.UnauthenticatedError(_NOT_VALID)
    require_address(found.allowed_networks, current_origin().address)
    note_use(found)
    return found


def note_use(api_key: ApiKey) -> None:
    """Record that a token was obtained with the key."""
    now = datetime.now(UTC)
    if api_key.last_used_at is None or now - api_key.last_used_at > _USE_NOTED_EVERY:
        api_key.last_used_at = now


def revoke_api_key(session: Session, prefix: str) -> ApiKey:
    """Revoke the key with this prefix, and with it all its tokens.

    Revoking it again changes nothing. Raise ApiKeyNotFoundError if there is no such key.
    """
    api_key = get_api_key(session, prefix)
    if api_key.revoked_at is None:
        api_key.revoked_at = datetime.now(UTC)
        record_about(session, AuditAction.API_KEY_REVOKED, api_key)
    return api_key


def get_api_key(session: Session, prefix: str) -> ApiKey:
    """Return the key with this prefix, which may also be a whole key. Raise ApiKeyNotFoundError."""
    prefix = find_prefix(prefix) or prefix
    api_key = None
    if _PREFIX.fullmatch(prefix):
        api_key = session.scalar(select(ApiKey).where(ApiKey.prefix == prefix))
    if api_key is None:
        # Text that is not in the form of a prefix may be a mistyped key, so the error does not repeat it.
        raise errors.ApiKeyNotFoundError(found=prefix if _PREFIX.fullmatch(prefix) else None)
    return api_key


def list_api_keys(session: Session) -> Sequence[tuple[ApiKey, str]]:
    """Return every API key with its organisation's name, oldest first."""
    owned = select(ApiKey, Organisation.name).join(Organisation)
    return session.execute(owned.order_by(ApiKey.id)).all()


def tell_expiring_keys(session: Session) -> None:
    """Record an event for each key that expires in 30, 7 or 1 days. Each of these is told once."""
    for row in session.execute(_EXPIRING, {"steps": list(_TOLD_BEFORE)}).all():
        data = {"prefix": row.prefix, "expires_at": write_moment(row.expires_at), "days": row.expiry_told}
        events.record(session, EventType.API_KEY_EXPIRES, data, organisation_id=row.organisation_id)


#: The numbers of days before a key expires at which that is told.
_TOLD_BEFORE = (1, 7, 30)

_EXPIRING = text("""
    UPDATE api_key SET expiry_told = due.days
    FROM (SELECT api_key.id, min(step) AS days
          FROM api_key CROSS JOIN unnest(CAST(:steps AS smallint[])) AS step
          WHERE revoked_at IS NULL AND expires_at > now()
            AND expires_at <= now() + make_interval(days => step)
          GROUP BY api_key.id) AS due
    WHERE api_key.id = due.id AND (expiry_told IS NULL OR expiry_told > due.days)
    RETURNING prefix, organisation_id, expires_at, expiry_told
""")


def _make(organisation_id: int) -> tuple[str, ApiKey]:
    prefix = f"ami_{_random(_PREFIX_CHARACTERS, 10)}"
    api_key = f"{prefix}_{_random(_SECRET_CHARACTERS, 43)}"
    return api_key, ApiKey(organisation_id=organisation_id, prefix=prefix, key_sha256=_hash(api_key))


def _supplier_ids(session: Session, organisation_id: int, codes: Collection[str] | None) -> list[int] | None:
    if codes is None:
        return None
    return [get_import_supplier(session, code, organisation_id=organisation_id).id for code in codes]


def _random(characters: str, length: int) -> str:
    return "".join(secrets.choice(characters) for _ in range(length))


def _hash(api_key: str) -> bytes:
    return sha256(api_key.encode()).digest()


def get_api_key_name(session: Session, api_key_id: int) -> str:
    """Return the name that identifies an API key as an author in records."""
    return f"API key {session.get_one(ApiKey, api_key_id).prefix}"


def report_api_key(session: Session, prefix: str) -> dict[str, Any]:
    """Return what an organisation is told about its key with this prefix, by the names of the interface.

    None stands for no limit. Raise ApiKeyNotFoundError.
    """
    key = get_api_key(session, prefix)
    codes = None
    if key.import_supplier_ids is not None:
        wanted = select(ImportSupplier.code).where(ImportSupplier.id.in_(key.import_supplier_ids))
        codes = session.scalars(wanted.order_by(ImportSupplier.code)).all()
    return {
        "api_key": key.prefix,
        "api_key_name": key.name,
        "organisation": session.get_one(Organisation, key.organisation_id).name,
        "scopes": key.scopes,
        "import_suppliers": codes,
        "allowed_networks": key.allowed_networks,
        "expires_at": key.expires_at,
    }
