"""The preview of a plan: the number of accounts in each wave. Nothing is stored."""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import exists, func, select
from sqlalchemy.orm import Session

from migration_service.errors import WavePlanOpenError
from migration_service.models import AccountImportProcess, WavePlan
from migration_service.services.imports.states import require_ongoing
from migration_service.services.setup.suppliers import KnownSupplier
from migration_service.services.waves.orders import PlanOrder, WaveOrder
from migration_service.services.waves.plans import count_older, find_listed, require_accounts
from migration_service.states import ImportState


@dataclass(frozen=True, slots=True)
class PlanPreview:
    """How a plan would divide the pending accounts into waves."""

    #: The number of accounts in each wave, in order.
    sizes: Sequence[int]
    #: The number of accounts that would be in no wave.
    unplanned: int
    #: How many of these are left out because a newer version of them was refused.
    older_versions: int


def count_pending(session: Session, import_supplier_id: int) -> int:
    """Return the number of pending accounts of a supplier."""
    pending = (
        AccountImportProcess.import_supplier_id == import_supplier_id,
        AccountImportProcess.state == ImportState.PENDING,
    )
    return session.scalar(select(func.count()).where(*pending)) or 0


def preview_plan(session: Session, supplier: KnownSupplier, order: PlanOrder) -> PlanPreview:
    """Return the number of accounts that each wave of a plan would get.

    Raise the errors of `plan_waves` about the supplier and the waves.
    """
    require_ongoing(supplier.status)
    is_open = exists().where(WavePlan.import_supplier_id == supplier.id, WavePlan.finished_at.is_(None))
    if session.scalar(select(is_open)):
        raise WavePlanOpenError
    listed = find_listed(session, supplier.id, order)
    older = 0 if order.include_older_versions else count_older(session, supplier.id)
    left = count_pending(session, supplier.id) - older - sum(map(len, listed.values()))
    sizes = {index: len(ids) for index, ids in listed.items()}
    for index in sorted(set(range(len(order.waves))) - set(listed)):
        sizes[index] = min(left, _wanted(order.waves[index], left))
        left -= sizes[index]
    require_accounts([sizes[index] for index in range(len(order.waves))])
    return PlanPreview([sizes[index] for index in range(len(order.waves))], left + older, older)


def _wanted(wave: WaveOrder, left: int) -> int:
    return wave.sample or wave.size or left
