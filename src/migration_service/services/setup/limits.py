"""The concurrency limit (section 8), which operators can change while the service is running."""

from sqlalchemy import select, update
from sqlalchemy.orm import Session

from migration_service.models import ServiceLimit
from migration_service.services.audit.entries import AuditAction, record

#: The largest limit that operators may set.
LARGEST_LIMIT = 1_000_000


def get_concurrency_limit(session: Session) -> int | None:
    """Return the largest number of accounts processed simultaneously, or None if there is no limit."""
    return session.scalar(select(ServiceLimit.concurrency_limit))


def set_concurrency_limit(session: Session, limit: int | None) -> None:
    """Process at most `limit` accounts (at least 1) simultaneously. None removes the limit.

    This applies to every request after the transaction, but not to accounts that are already being processed.
    """
    session.execute(update(ServiceLimit).values(concurrency_limit=limit).returning(ServiceLimit.id)).one()
    record(session, AuditAction.LIMIT_SET, "concurrency_limit", "off" if limit is None else limit)
