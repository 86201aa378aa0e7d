"""What the audit has, for tests."""

from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session, sessionmaker

from migration_service.models import AuditEntry


def audited(sessions: sessionmaker[Session], **wanted: object) -> list[AuditEntry]:
    """Return the entries of the audit with these values, the oldest first."""
    with sessions() as session:
        return list_entries(session, **wanted)


def list_entries(session: Session, **wanted: object) -> list[AuditEntry]:
    """Return them as a session sees them, before its commit as well."""
    session.flush()
    return list(session.scalars(select(AuditEntry).filter_by(**wanted).order_by(AuditEntry.id)))


def list_told(session: Session, action: str) -> list[tuple[Any, ...]]:
    """Return whom each of these acts was about, its organisation and its details."""
    found = list_entries(session, action=action)
    return [(it.subject_kind, it.subject, it.organisation_id, it.details) for it in found]
