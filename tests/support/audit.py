"""What the audit has, for tests."""

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
