"""Sessions and the rotation of their refresh tokens. Exchanging a key for tokens starts a session.

A refresh token is exchanged once, for a successor. For a minute it returns the same successor again, because
the response may have been lost, or several processes of a client may refresh at the same time. A token that
is reused later was probably stolen, so its session ends, with all its tokens.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from sqlalchemy import delete, func, select, update
from sqlalchemy.orm import Session

from migration_service import errors
from migration_service.db.base import new_id
from migration_service.models import ApiKey, RefreshToken, TokenSession
from migration_service.origin import current_origin
from migration_service.services.audit.entries import AuditAction, record, record_about

#: How long an exchanged refresh token returns the same successor.
GRACE = timedelta(seconds=60)
#: How long sessions are kept after their last token has expired.
_KEPT = timedelta(days=30)

_IS_OPEN = TokenSession.ended_at.is_(None), TokenSession.expires_at > func.now()

REUSED = "refresh_token_reused"
ENDED_BY_OPERATOR = "ended_by_operator"
ENDED_BY_ORGANISATION = "ended_by_organisation"
TOO_MANY = "too_many_sessions"


@dataclass(frozen=True, slots=True)
class RefreshGrant:
    """An unsigned refresh token."""

    id: UUID
    session_id: UUID
    issued_at: datetime
    expires_at: datetime


def begin_session(session: Session, api_key: ApiKey, expires_at: datetime, most: int) -> RefreshGrant:
    """Start a session of the key, and return its first refresh token.

    If the key has `most` open sessions, its oldest ones end. The new one is not refused, because a client
    that obtains a token for each request would otherwise be locked out for days.
    """
    _end_oldest(session, api_key, most)
    origin, session_id, token_id = current_origin(), new_id(), new_id()
    session.add(
        TokenSession(
            id=session_id,
            api_key_id=api_key.id,
            expires_at=expires_at,
            request_id=origin.request_id,
            address=origin.address,
        )
    )
    session.flush()
    session.add(RefreshToken(id=token_id, token_session_id=session_id))
    return RefreshGrant(token_id, session_id, datetime.now(UTC), expires_at)


def _end_oldest(session: Session, api_key: ApiKey, most: int) -> None:
    newest_first = (
        select(TokenSession.id)
        .where(TokenSession.api_key_id == api_key.id, *_IS_OPEN)
        .order_by(TokenSession.id.desc())
    )
    if session.scalar(newest_first.offset(most - 1).limit(1)) is None:
        return
    # A tenth of them at a time, so that not every further session adds an entry to the audit.
    oldest = newest_first.offset(most - max(1, most // 10)).subquery()
    ended = session.scalars(
        update(TokenSession)
        .where(TokenSession.id.in_(select(oldest.c.id)))
        .values(ended_at=func.now(), end_reason=TOO_MANY)
        .returning(TokenSession.id)
    ).all()
    details = {"sessions": len(ended), "reason": TOO_MANY}
    record_about(session, AuditAction.SESSION_ENDED, api_key, details)


def exchange(session: Session, api_key: ApiKey, claims: dict[str, Any]) -> RefreshGrant:
    """Return the successor of the refresh token with these claims, which is the same one within GRACE.

    Raise RefreshTokenReusedError if it was exchanged earlier than that, and UnauthenticatedError if its
    session has ended (TooManySessionsError if the key has started too many others).
    """
    try:
        token_id = UUID(claims["jti"])
    except (TypeError, ValueError, AttributeError) as error:
        raise errors.UnauthenticatedError from error
    found = session.execute(
        select(RefreshToken, TokenSession, func.clock_timestamp())
        .join(TokenSession, TokenSession.id == RefreshToken.token_session_id)
        .where(RefreshToken.id == token_id, TokenSession.api_key_id == api_key.id)
        .with_for_update()
    ).one_or_none()
    if found is None:
        raise errors.UnauthenticatedError(
            "The session of the token is not known. Obtain a token with the API key."
        )
    token, owner, now = found
    if owner.ended_at and owner.end_reason == TOO_MANY:
        raise errors.TooManySessionsError
    if owner.ended_at:
        raise errors.UnauthenticatedError(
            "The session of the token was ended. Obtain a token with the API key."
        )
    if token.used_at is None:
        token.used_at, token.successor_id = now, new_id()
        session.add(RefreshToken(id=token.successor_id, token_session_id=owner.id))
    elif now - token.used_at > GRACE:
        raise errors.RefreshTokenReusedError(owner.id)
    return RefreshGrant(token.successor_id, owner.id, token.used_at, owner.expires_at)


def end_session(
    session: Session, session_id: str, reason: str = ENDED_BY_OPERATOR, *, organisation_id: int | None = None
) -> TokenSession:
    """End a session and all its tokens immediately. Ending it again changes nothing.

    Raise TokenSessionNotFoundError if `organisation_id` (any if None) has no such session.
    """
    try:
        owner = session.get(TokenSession, UUID(session_id), with_for_update=True)
    except ValueError:
        owner = None
    api_key = session.get_one(ApiKey, owner.api_key_id) if owner else None
    if owner is None or api_key is None or organisation_id not in (None, api_key.organisation_id):
        raise errors.TokenSessionNotFoundError(found=session_id)
    if owner.ended_at is None:
        owner.ended_at, owner.end_reason = datetime.now(UTC), reason
        details, of = {"api_key": api_key.prefix, "reason": reason}, api_key.organisation_id
        record(session, AuditAction.SESSION_ENDED, "session", owner.id, organisation_id=of, details=details)
    return owner


def list_sessions(session: Session, api_key: ApiKey) -> Sequence[TokenSession]:
    """Return the open sessions of a key, newest first."""
    return session.scalars(
        select(TokenSession)
        .where(TokenSession.api_key_id == api_key.id, *_IS_OPEN)
        .order_by(TokenSession.id.desc())
    ).all()


def list_sessions_of_organisation(
    session: Session, organisation_id: int, *, before: UUID | None, limit: int
) -> Sequence[dict[str, Any]]:
    """Return at most `limit` open sessions of all keys of an organisation, newest first.

    The list continues after session `before`.
    """
    statement = (
        select(TokenSession, ApiKey)
        .join(ApiKey, ApiKey.id == TokenSession.api_key_id)
        .where(ApiKey.organisation_id == organisation_id, ApiKey.revoked_at.is_(None), *_IS_OPEN)
        .order_by(TokenSession.id.desc())
        .limit(limit)
    )
    if before is not None:
        statement = statement.where(TokenSession.id < before)
    # They are selected with their keys, which `report_session` then finds in the session.
    return [report_session(session, owner) for owner, _key in session.execute(statement)]


def report_session(session: Session, owner: TokenSession) -> dict[str, Any]:
    """Return a session by the names of the interface."""
    api_key = session.get_one(ApiKey, owner.api_key_id)
    columns = ("address", "created_at", "expires_at", "ended_at")
    key = {"session_id": owner.id, "api_key": api_key.prefix, "api_key_name": api_key.name}
    return key | {name: getattr(owner, name) for name in columns}


def remove_old_sessions(session: Session, *, limit: int) -> int:
    """Remove at most `limit` sessions that expired long ago, and return their number."""
    old = (
        select(TokenSession.id)
        .where(TokenSession.expires_at < datetime.now(UTC) - _KEPT)
        .limit(limit)
        .with_for_update(skip_locked=True)
        .cte()  # runs once, whereas a subquery may run for each row and exceed the limit
    )
    removed = delete(TokenSession).where(TokenSession.id.in_(select(old.c.id))).returning(TokenSession.id)
    return len(session.execute(removed).all())
