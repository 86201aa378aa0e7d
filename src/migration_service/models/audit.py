"""The audit: append-only entries, and the hashes of whole days.

Database triggers refuse every change. Database functions seal and remove days, and run as the owner of the
tables (see the revision that creates the tables).
"""

from datetime import date, datetime
from typing import Any

from sqlalchemy import FetchedValue, Identity, LargeBinary, func
from sqlalchemy.orm import Mapped, mapped_column

from migration_service.db.base import Base


class AuditEntry(Base):
    """One act with its actor, subject, origin and outcome, without personal data."""

    __tablename__ = "audit_entry"

    id: Mapped[int] = mapped_column(Identity(), primary_key=True)
    #: Set by the database, overriding any inserted value.
    at: Mapped[datetime] = mapped_column(server_default=func.clock_timestamp())
    #: The kind of actor, and its identity: the prefix of a key, or the name of an operator or system user.
    actor_kind: Mapped[str]
    actor: Mapped[str | None]
    #: The organisation concerned. No foreign key, because the entry outlives everything.
    organisation_id: Mapped[int | None]
    address: Mapped[str | None]
    request_id: Mapped[str | None]
    #: `<subject>.<past participle>`, such as `api_key.revoked`.
    action: Mapped[str]
    #: The kind and the key of the subject. Accounts are identified by the id of their process.
    subject_kind: Mapped[str | None]
    subject: Mapped[str | None]
    outcome: Mapped[str]
    #: The error code, if the act was refused.
    code: Mapped[str | None]
    #: Further details, never with values of a payload.
    details: Mapped[dict[str, Any] | None]
    once: Mapped[str | None]
    #: PostgreSQL's timeline, which a promoted standby and a restored backup increase. Set by the database.
    timeline: Mapped[int] = mapped_column(server_default=FetchedValue())


class AuditDay(Base):
    """A sealed day of the audit. Its hash includes that of the previous day."""

    __tablename__ = "audit_day"

    day: Mapped[date] = mapped_column(primary_key=True)
    entries: Mapped[int]
    entries_sha256: Mapped[bytes] = mapped_column(LargeBinary)
    chain_sha256: Mapped[bytes] = mapped_column(LargeBinary)
    sealed_at: Mapped[datetime] = mapped_column(server_default=func.clock_timestamp())
    #: When its entries were removed at the end of their retention period.
    removed_at: Mapped[datetime | None]
