"""Acknowledgements, with a reason: of sent accounts that are not imported, and of warnings."""

from datetime import datetime
from uuid import UUID

from sqlalchemy import CheckConstraint, ForeignKey, Identity, Index, func
from sqlalchemy.orm import Mapped, mapped_column

from migration_service.db.base import Base, literals
from migration_service.models.operation import ImportSupplier
from migration_service.states import ReadinessCheck


class Acknowledgement(Base):
    """A record that an account or an unnumbered line is knowingly not imported.

    It covers the versions sent by then. A version sent and refused later is open again.
    """

    __tablename__ = "acknowledgement"
    __table_args__ = (
        CheckConstraint(
            "external_account_number IS NOT NULL OR (batch_id IS NOT NULL AND line_number IS NOT NULL)",
            name="account_or_line",
        ),
        Index(
            "ix_acknowledgement_item",
            "import_supplier_id",
            "external_account_number",
            "batch_id",
            "line_number",
        ),
    )

    id: Mapped[int] = mapped_column(Identity(), primary_key=True)
    import_supplier_id: Mapped[int] = mapped_column(ForeignKey(ImportSupplier.id))
    #: The account, or None if the line has no number.
    external_account_number: Mapped[str | None]
    #: The line, if it has no number. No foreign key: the acknowledgement outlives the line.
    batch_id: Mapped[UUID | None]
    line_number: Mapped[int | None]
    reason: Mapped[str]
    #: The name given by an operator, or the prefix of an API key.
    acknowledged_by: Mapped[str]
    acknowledged_at: Mapped[datetime] = mapped_column(server_default=func.now())


class AcceptedWarning(Base):
    """A warning before a wave or go-live that a person accepted, for as long as it says the same."""

    __tablename__ = "accepted_warning"
    __table_args__ = (CheckConstraint(f"readiness_check IN ({literals(ReadinessCheck)})", name="check"),)

    id: Mapped[int] = mapped_column(Identity(), primary_key=True)
    import_supplier_id: Mapped[int] = mapped_column(ForeignKey(ImportSupplier.id), index=True)
    readiness_check: Mapped[str]
    #: The sentence that it said.
    found: Mapped[str]
    reason: Mapped[str]
    accepted_by: Mapped[str]
    accepted_at: Mapped[datetime] = mapped_column(server_default=func.now())
