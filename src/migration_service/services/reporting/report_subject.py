"""The subject of a report: a supplier, one batch, a plan of waves, or one wave."""

from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from typing import Any
from uuid import UUID

from sqlalchemy.orm import Session

from migration_service import errors
from migration_service.models import Batch, WavePlan
from migration_service.services.batches.control import get_batch
from migration_service.services.setup import suppliers
from migration_service.services.waves.reading import find_wave, get_plan, get_wave, list_waves


class ReportKind(StrEnum):
    """The kinds of subjects of a report."""

    SUPPLIER = "supplier"
    BATCH = "batch"
    PLAN = "wave plan"
    WAVE = "wave"


@dataclass(frozen=True, slots=True)
class ReportSubject:
    """A supplier, or some of its batches: a single one, those of a plan of waves, or that of one wave."""

    kind: ReportKind
    supplier: suppliers.KnownSupplier
    #: None for the whole supplier.
    batch_ids: tuple[UUID, ...] | None = None
    #: The plan of waves, and the number of the wave. They are also set for the batch of a wave.
    plan_id: UUID | None = None
    wave: int | None = None

    @property
    def batch_id(self) -> UUID | None:
        """Return the batch if the report is about one, or about one wave."""
        is_one = self.kind in (ReportKind.BATCH, ReportKind.WAVE)
        return self.batch_ids[0] if self.batch_ids and is_one else None

    def values(self) -> dict[str, Any]:
        """Return the parameters of the statements of a report."""
        return {
            "import_supplier_id": self.supplier.id,
            "batch_ids": None if self.batch_ids is None else list(self.batch_ids),
            "plan_id": self.plan_id,
        }


def find_subject(
    session: Session, target: str, *, organisation_id: int | None, wave: int | None = None
) -> ReportSubject:
    """Return the organisation's supplier with this code, or its batch or plan of waves with this id.

    With `wave`, return the wave with that number in the plan with this id. Raise ImportSupplierNotFoundError
    if nothing is found, or with `wave` WavePlanNotFoundError or WaveNotFoundError.
    """
    if wave is not None:
        return subject_of_plan(session, get_plan(session, target, organisation_id=organisation_id), wave)
    try:
        supplier = suppliers.get_import_supplier(session, target, organisation_id=organisation_id)
        return ReportSubject(ReportKind.SUPPLIER, supplier)
    except errors.ImportSupplierNotFoundError:
        with suppress(errors.BatchNotFoundError):
            return subject_of_batch(session, get_batch(session, target, organisation_id=organisation_id))
        with suppress(errors.WavePlanNotFoundError):
            return subject_of_plan(session, get_plan(session, target, organisation_id=organisation_id))
        raise


def subject_of_batch(session: Session, batch: Batch) -> ReportSubject:
    """Return the batch as a subject, with the wave that it is of."""
    supplier = suppliers.get_import_supplier_by_id(session, batch.import_supplier_id)
    wave = find_wave(session, batch.id)
    if wave is None:
        return ReportSubject(ReportKind.BATCH, supplier, (batch.id,))
    return ReportSubject(ReportKind.BATCH, supplier, (batch.id,), wave.plan_id, wave.number)


def subject_of_plan(session: Session, plan: WavePlan, number: int | None = None) -> ReportSubject:
    """Return the plan, or the wave with this number, as a subject. Raise WaveNotFoundError."""
    supplier = suppliers.get_import_supplier_by_id(session, plan.import_supplier_id)
    if number is None:
        batches = tuple(wave.batch_id for wave in list_waves(session, plan.id))
        return ReportSubject(ReportKind.PLAN, supplier, batches, plan.id)
    batch_id = get_wave(session, plan, number).batch_id
    return ReportSubject(ReportKind.WAVE, supplier, (batch_id,), plan.id, number)
