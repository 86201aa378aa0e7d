"""Waves: a plan divides the pending accounts of a supplier into batches with windows and decisions."""

from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import ForeignKey, UniqueConstraint, func
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import Mapped, mapped_column

from migration_service.db.base import Base
from migration_service.models.batch import Batch
from migration_service.models.operation import ImportSupplier, OperationsTeam, Organisation
from migration_service.states import WaveState


class WavePlan(Base):
    """The waves of a supplier, in order. A supplier has at most one unfinished plan."""

    __tablename__ = "wave_plan"

    id: Mapped[UUID] = mapped_column(primary_key=True)
    organisation_id: Mapped[int] = mapped_column(ForeignKey(Organisation.id))
    import_supplier_id: Mapped[int] = mapped_column(ForeignKey(ImportSupplier.id))
    name: Mapped[str | None]
    operations_team_id: Mapped[int] = mapped_column(ForeignKey(OperationsTeam.id))
    #: The seed of the random draw. The same seed draws the same accounts again.
    seed: Mapped[int]
    #: The default for whether the wave after a clean one starts automatically.
    continue_if_clean: Mapped[bool]
    #: The number of accounts that were pending when the plan was created, but are in no wave.
    unplanned: Mapped[int] = mapped_column(server_default="0")
    #: How many of these were left out because a newer version of them was refused.
    older_versions: Mapped[int] = mapped_column(server_default="0")
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())
    #: When the last wave ended.
    finished_at: Mapped[datetime | None]


class Wave(Base):
    """A batch of pending accounts with a window, and a decision after it."""

    __tablename__ = "wave"
    __table_args__ = (UniqueConstraint("batch_id"),)

    plan_id: Mapped[UUID] = mapped_column(ForeignKey(WavePlan.id), primary_key=True)
    #: Its position in the plan, from 1.
    number: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    name: Mapped[str | None]
    #: The batch whose lines are the accounts of the wave. It is paused until the wave starts.
    batch_id: Mapped[UUID] = mapped_column(ForeignKey(Batch.id))
    state: Mapped[str] = mapped_column(server_default=WaveState.PLANNED)
    #: The reason why it is PAUSED, from its batch, or None if a person paused it.
    reason: Mapped[str | None]
    #: Whether the next wave starts automatically if this one is clean, or None for the plan's default.
    continue_if_clean: Mapped[bool | None]
    #: A `services.waves.windows.Window`, or None if it may run at any time. The first wave is then started by
    #: hand.
    time_window: Mapped[dict[str, Any] | None] = mapped_column(JSONB(none_as_null=True))
    #: The result of a random draw: for each stratum, its number of accounts and how many were drawn.
    strata: Mapped[list[Any] | None] = mapped_column(JSONB(none_as_null=True))
    began_at: Mapped[datetime | None]
    #: Who started it by hand.
    began_by: Mapped[str | None]
    #: The forecast when it started, in the stored form of `services.waves.forecast`. None if there was none.
    forecast: Mapped[dict[str, Any] | None] = mapped_column(JSONB(none_as_null=True))
    #: When every line first had an outcome.
    ended_at: Mapped[datetime | None]
    #: The comparison that decides about it. None until that has started.
    comparison_id: Mapped[UUID | None]
    #: The numbers of created accounts with differences, and of open accounts. None if not known yet.
    differing: Mapped[int | None]
    open: Mapped[int | None]
    reconciled_at: Mapped[datetime | None]
    #: The person who approved or stopped it, the time and the reason.
    decided_by: Mapped[str | None]
    #: The operator or API key that was authenticated, whatever name was given.
    decided_as: Mapped[str | None]
    decided_at: Mapped[datetime | None]
    decision_reason: Mapped[str | None]
