"""The concurrency limit (section 8), which operators can also change while the service runs."""

from sqlalchemy import select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from migration_service.models import ServiceLimit
from migration_service.services.audit.entries import AuditAction, record

_ONLY_ROW = 1
#: The largest limit that operators may set.
LARGEST_LIMIT = 1_000_000


def get_concurrency_limit(session: Session) -> int | None:
    """Return how many accounts are processed at once, or None if it is not limited."""
    return session.scalar(select(ServiceLimit.concurrency_limit))


def set_concurrency_limit(session: Session, limit: int | None) -> None:
    """Process at most `limit` accounts at once (at least 1). None removes the limit.

    This applies to every request after the transaction. Accounts that are being processed are not affected.
    """
    statement = insert(ServiceLimit).values(id=_ONLY_ROW, concurrency_limit=limit)
    session.execute(statement.on_conflict_do_update(index_elements=["id"], set_={"concurrency_limit": limit}))
    record(session, AuditAction.LIMIT_SET, "concurrency_limit", "off" if limit is None else limit)
