"""Waves: a plan that cuts the pending accounts of a supplier into batches with windows and decisions."""

from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import CheckConstraint, ForeignKey, Index, UniqueConstraint, func, text
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import Mapped, mapped_column

from migration_service.db.base import Base, literals
from migration_service.models.batch import Batch
from migration_service.models.operation import ImportSupplier, OperationsTeam, Organisation
from migration_service.states import WaveState


class WavePlan(Base):
    """The waves of one supplier, in their order. A supplier has one plan at a time that is not finished."""

    __tablename__ = "wave_plan"
    __table_args__ = (
        Index(
            "uq_wave_plan_open",
            "import_supplier_id",
            unique=True,
            postgresql_where=text("finished_at IS NULL"),
        ),
    )

    id: Mapped[UUID] = mapped_column(primary_key=True)
    organisation_id: Mapped[int] = mapped_column(ForeignKey(Organisation.id), index=True)
    import_supplier_id: Mapped[int] = mapped_column(ForeignKey(ImportSupplier.id))
    name: Mapped[str | None]
    operations_team_id: Mapped[int] = mapped_column(ForeignKey(OperationsTeam.id))
    #: What the random draw began with. The same seed draws the same accounts again.
    seed: Mapped[int]
    #: Whether the wave after a clean one begins without a person, if the wave does not say so itself.
    continue_if_clean: Mapped[bool]
    #: Accounts that were pending when the plan was made, and are in no wave.
    unplanned: Mapped[int] = mapped_column(server_default="0")
    #: Those among them that were left out because a newer version of them was refused.
    older_versions: Mapped[int] = mapped_column(server_default="0")
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())
    #: When the last wave was over.
    finished_at: Mapped[datetime | None]


class Wave(Base):
    """A batch of pending accounts with a window, and a decision after it."""

    __tablename__ = "wave"
    __table_args__ = (
        UniqueConstraint("batch_id"),
        CheckConstraint(f"state IN ({literals(WaveState)})", name="state"),
    )

    plan_id: Mapped[UUID] = mapped_column(ForeignKey(WavePlan.id), primary_key=True)
    #: Its place in the plan, from 1.
    number: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    name: Mapped[str | None]
    #: Its accounts are the lines of this batch, which is paused until the wave begins.
    batch_id: Mapped[UUID] = mapped_column(ForeignKey(Batch.id))
    state: Mapped[str] = mapped_column(server_default=WaveState.PLANNED)
    #: Why it is PAUSED: the reason of its batch. Null if a person paused it.
    reason: Mapped[str | None]
    #: Whether the next wave begins without a person if this one is clean. None: as its plan says.
    continue_if_clean: Mapped[bool | None]
    #: A `services.waves.windows.Window`. None: it may run at any time. The first wave then begins by hand.
    time_window: Mapped[dict[str, Any] | None] = mapped_column(JSONB(none_as_null=True))
    #: Of a random draw: for each stratum how many accounts it had, and how many of them were drawn.
    strata: Mapped[list[Any] | None] = mapped_column(JSONB(none_as_null=True))
    began_at: Mapped[datetime | None]
    #: The last line of the batch that reconciliation has compared.
    reconciled_to: Mapped[int] = mapped_column(server_default="0")
    #: Created accounts that are not as they were staged, and accounts that are open. None: not known yet.
    differing: Mapped[int | None]
    open: Mapped[int | None]
    reconciled_at: Mapped[datetime | None]
    #: Who approved or stopped it, when and why.
    decided_by: Mapped[str | None]
    decided_at: Mapped[datetime | None]
    decision_reason: Mapped[str | None]
