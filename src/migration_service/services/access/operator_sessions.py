"""Sessions of operators in the console, from a login until a logout, a time-out or a lock-out.

The browser has a random token, and the table its hash. Sessions end on the server, so logging out, a new
password or disabling the operator takes effect immediately.
"""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from uuid import UUID

from sqlalchemy import delete, select, update
from sqlalchemy.orm import Session

from migration_service.config import Settings
from migration_service.db.base import new_id
from migration_service.models import Operator, OperatorSession
from migration_service.origin import current_origin
from migration_service.services.access.operators import AuthenticatedOperator, authenticated
from migration_service.services.audit.entries import AuditAction, record

#: The precision of `last_seen_at`, which is written at most once in this time.
_SEEN_EVERY = timedelta(minutes=1)
#: How long ended sessions are kept.
_KEPT = timedelta(days=30)

LOGGED_OUT = "logged_out"


@dataclass(frozen=True, slots=True)
class ActiveSession:
    """A session that has not ended, with its operator and their current role."""

    id: UUID
    operator: AuthenticatedOperator


def begin_operator_session(session: Session, operator: AuthenticatedOperator) -> tuple[str, ActiveSession]:
    """Start a session of an operator who has logged in, and return it with its token."""
    token, id_ = secrets.token_urlsafe(32), new_id()
    address = current_origin().address
    session.add(OperatorSession(id=id_, operator_id=operator.id, token_sha256=_hash(token), address=address))
    return token, ActiveSession(id_, operator)


def find_operator_session(
    session: Session, token: str, settings: Settings, *, is_used: bool
) -> ActiveSession | None:
    """Return the session with this token, or None if there is none or it has ended.

    `is_used` records activity of the operator, which prolongs the session. Leave it out for requests that a
    page sends automatically.
    """
    now = datetime.now(UTC)
    found = session.execute(
        select(OperatorSession, Operator)
        .join(Operator, Operator.id == OperatorSession.operator_id)
        .where(
            OperatorSession.token_sha256 == _hash(token),
            OperatorSession.ended_at.is_(None),
            Operator.disabled_at.is_(None),
            OperatorSession.created_at > now - timedelta(hours=settings.console_session_hours),
            OperatorSession.last_seen_at > now - timedelta(minutes=settings.console_idle_minutes),
        )
    ).one_or_none()
    if found is None:
        return None
    row, operator = found
    if is_used and now - row.last_seen_at > _SEEN_EVERY:
        row.last_seen_at = now
    return ActiveSession(row.id, authenticated(session, operator))


def log_out_operator(session: Session, active: ActiveSession) -> None:
    """End a session at its operator's request."""
    this = update(OperatorSession).where(OperatorSession.id == active.id, OperatorSession.ended_at.is_(None))
    session.execute(this.values(ended_at=datetime.now(UTC), end_reason=LOGGED_OUT))
    record(session, AuditAction.OPERATOR_LOGGED_OUT, "operator", active.operator.name)


def list_operator_sessions(session: Session, operator_name: str) -> Sequence[OperatorSession]:
    """Return the open sessions of an operator, newest first."""
    owned = select(OperatorSession).join(Operator, Operator.id == OperatorSession.operator_id)
    wanted = owned.where(Operator.name == operator_name, OperatorSession.ended_at.is_(None))
    return session.scalars(wanted.order_by(OperatorSession.created_at.desc())).all()


def remove_old_operator_sessions(session: Session) -> int:
    """Remove sessions that started long ago. Return their number."""
    old = delete(OperatorSession).where(OperatorSession.created_at < datetime.now(UTC) - _KEPT)
    return len(session.scalars(old.returning(OperatorSession.id)).all())


def _hash(token: str) -> bytes:
    return sha256(token.encode()).digest()
