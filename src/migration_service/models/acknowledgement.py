"""Acknowledgements, with a reason: of sent accounts that are not imported, and of warnings."""

from datetime import datetime
from uuid import UUID

from sqlalchemy import ForeignKey, Identity, func
from sqlalchemy.orm import Mapped, mapped_column

from migration_service.db.base import Base
from migration_service.models.operation import ImportSupplier


class Acknowledgement(Base):
    """A record that an account or an unnumbered line is knowingly not imported.

    It covers the versions sent by then. A version sent and refused later is open again.
    """

    __tablename__ = "acknowledgement"

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

    id: Mapped[int] = mapped_column(Identity(), primary_key=True)
    import_supplier_id: Mapped[int] = mapped_column(ForeignKey(ImportSupplier.id))
    readiness_check: Mapped[str]
    #: The sentence that it said.
    found: Mapped[str]
    reason: Mapped[str]
    accepted_by: Mapped[str]
    accepted_at: Mapped[datetime] = mapped_column(server_default=func.now())
