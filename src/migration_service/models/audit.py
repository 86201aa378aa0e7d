"""The audit: entries that are only ever added, and the hashes of whole days.

Triggers of the database refuse every change. Sealing and removing days are functions of the database, which
run as the owner of the tables (the revision that makes the tables has them).
"""

from datetime import date, datetime
from typing import Any

from sqlalchemy import CheckConstraint, Identity, Index, LargeBinary, func, text
from sqlalchemy.orm import Mapped, mapped_column

from migration_service.db.base import Base, literals
from migration_service.states import AuditOutcome


class AuditEntry(Base):
    """One act: who did what, on what, from where, and with which outcome. No personal values."""

    __tablename__ = "audit_entry"
    __table_args__ = (
        CheckConstraint(f"outcome IN ({literals(AuditOutcome)})", name="outcome"),
        # Refusals have one entry for each address and minute.
        Index("uq_audit_entry_once", "once", unique=True, postgresql_where=text("once IS NOT NULL")),
    )

    id: Mapped[int] = mapped_column(Identity(), primary_key=True)
    #: Set by the database, whatever is inserted.
    at: Mapped[datetime] = mapped_column(server_default=func.clock_timestamp(), index=True)
    #: What kind of actor it was, and which: the prefix of a key, the name of an operator or a system user.
    actor_kind: Mapped[str]
    actor: Mapped[str | None]
    #: The organisation that the act concerns. No foreign key: the entry outlives everything.
    organisation_id: Mapped[int | None]
    address: Mapped[str | None]
    request_id: Mapped[str | None]
    #: `<subject>.<past participle>`, as `api_key.revoked`.
    action: Mapped[str]
    #: What the act was on: the kind of thing and its key. Accounts are named by the id of their process.
    subject_kind: Mapped[str | None]
    subject: Mapped[str | None]
    outcome: Mapped[str]
    #: Why it was refused.
    code: Mapped[str | None]
    #: What else there is to say; never anything of a payload.
    details: Mapped[dict[str, Any] | None]
    once: Mapped[str | None]


class AuditDay(Base):
    """A day of the audit whose entries were hashed; each hash contains the one of the day before."""

    __tablename__ = "audit_day"

    day: Mapped[date] = mapped_column(primary_key=True)
    entries: Mapped[int]
    entries_sha256: Mapped[bytes] = mapped_column(LargeBinary)
    chain_sha256: Mapped[bytes] = mapped_column(LargeBinary)
    sealed_at: Mapped[datetime] = mapped_column(server_default=func.clock_timestamp())
    #: When its entries were removed, after the time that they are kept.
    removed_at: Mapped[datetime | None]
