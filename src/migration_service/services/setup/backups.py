"""When the last backup was taken. The service takes none itself."""

from datetime import datetime

from sqlalchemy import func, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from migration_service.models import Backup
from migration_service.services.audit.entries import AuditAction, record


def record_backup(session: Session) -> None:
    """Keep the present moment as that of the last backup, from which its age is measured."""
    now = func.now()
    statement = insert(Backup).values(id=1, taken_at=now)
    session.execute(statement.on_conflict_do_update(index_elements=["id"], set_={"taken_at": now}))
    record(session, AuditAction.BACKUP_TAKEN, "backup", "database")


def find_last_backup(session: Session) -> datetime | None:
    """Return when the last backup was taken, in UTC, or None if nobody has said so."""
    return session.scalar(select(Backup.taken_at))
