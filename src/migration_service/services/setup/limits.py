"""The concurrency limit (section 8) as operators set it, also while the service runs."""

from sqlalchemy import select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from migration_service.models import ServiceLimit
from migration_service.services.access.audit import AuditAction, record

_ONLY_ROW = 1


def get_concurrency_limit(session: Session) -> int | None:
    """How many accounts are processed at once; None: no limit."""
    return session.scalar(select(ServiceLimit.concurrency_limit))


def set_concurrency_limit(session: Session, limit: int | None) -> None:
    """Process at most `limit` accounts at once (at least 1), or with None as many as are asked for.

    It holds for every request that comes in after the transaction; what is being processed goes on.
    """
    statement = insert(ServiceLimit).values(id=_ONLY_ROW, concurrency_limit=limit)
    session.execute(statement.on_conflict_do_update(index_elements=["id"], set_={"concurrency_limit": limit}))
    record(session, AuditAction.LIMIT_SET, "concurrency_limit", "off" if limit is None else limit)
