"""Whether a supplier is ready for its next wave, or for go-live, and the warnings that a person accepted."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from migration_service.db.cancelling import allow_minutes
from migration_service.errors import ReadinessNotAcceptableError
from migration_service.models import AcceptedWarning, WavePlan
from migration_service.origin import current_origin
from migration_service.services.audit.entries import AuditAction, record
from migration_service.services.readiness.checks import (
    BEFORE_GO_LIVE,
    BEFORE_WAVE,
    SAYS,
    Situation,
    Surroundings,
)
from migration_service.services.setup.suppliers import KnownSupplier, list_owned
from migration_service.services.waves.reports import report_plan
from migration_service.states import CheckResult, ReadinessCheck, ReadyFor, WaveState


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What a check found. The members are those of the interface, except for `said` and `values`."""

    check: ReadinessCheck
    result: CheckResult
    #: The key of `checks.SAYS`, and what its sentence contains.
    said: str
    values: dict[str, Any]
    detail: str
    remedy: str
    accepted_by: str | None = None
    accepted_at: datetime | None = None
    accepted_because: str | None = None

    @property
    def is_in_the_way(self) -> bool:
        """Return whether it has failed, or is a warning that nobody has accepted."""
        return self.result is CheckResult.FAILED or self.is_acceptable

    @property
    def is_acceptable(self) -> bool:
        """Return whether it is a warning that nobody has accepted."""
        return self.result is CheckResult.WARNING and self.accepted_at is None


@dataclass(frozen=True, slots=True, kw_only=True)
class Readiness:
    """Whether a supplier is ready, by check."""

    import_supplier: str
    ready_for: ReadyFor
    #: The number of the wave that starts next. None before go-live, or if no wave is planned.
    wave_number: int | None
    checks: list[Finding]

    @property
    def ready(self) -> bool:
        """Return whether nothing failed, and every warning was accepted."""
        return not any(it.is_in_the_way for it in self.checks)


def examine(
    session: Session,
    supplier: KnownSupplier,
    surroundings: Surroundings,
    ready_for: ReadyFor | None = None,
) -> Readiness:
    """Carry out the checks: by default for the next wave if one is planned, and otherwise for go-live."""
    allow_minutes(session)
    plans = list_owned(session, WavePlan, organisation_id=None, import_supplier=supplier.code, limit=1)
    plan = report_plan(session, plans[0]) if plans else None
    coming = (WaveState.PLANNED, WaveState.WAITING)
    wave = next((it for it in plan.waves if it.state in coming), None) if plan else None
    ready_for = ready_for or (ReadyFor.WAVE if wave else ReadyFor.GO_LIVE)
    is_wave = ready_for is ReadyFor.WAVE
    situation = Situation(
        session=session,
        supplier=supplier,
        plan=plan,
        wave=wave if is_wave else None,
        surroundings=surroundings,
    )
    accepted = _list_accepted(session, supplier.id)
    checks = (BEFORE_WAVE if is_wave else BEFORE_GO_LIVE).items()
    return Readiness(
        import_supplier=supplier.code,
        ready_for=ready_for,
        wave_number=situation.wave.number if situation.wave else None,
        checks=[_find(name, *check(situation), accepted) for name, check in checks],
    )


def _find(
    check: ReadinessCheck, said: str, values: Any, accepted: dict[tuple[str, str], AcceptedWarning]
) -> Finding:
    result, sentence, remedy = SAYS[said]
    detail = sentence % values
    kept = accepted.get((check, detail)) if result is CheckResult.WARNING else None
    return Finding(
        check=check,
        result=result,
        said=said,
        values=dict(values),
        detail=detail,
        remedy=remedy,
        accepted_by=kept.accepted_by if kept else None,
        accepted_at=kept.accepted_at if kept else None,
        accepted_because=kept.reason if kept else None,
    )


def accept_warning(
    session: Session,
    supplier: KnownSupplier,
    found: Iterable[Finding],
    check: str,
    *,
    reason: str,
    by: str | None = None,
) -> Finding:
    """Accept the warning of a check for as long as it says the same. `by` names who does, if not the actor.

    Raise ReadinessNotAcceptableError if the check is no open warning.
    """
    finding = next((it for it in found if it.check == check and it.is_acceptable), None)
    if finding is None:
        raise ReadinessNotAcceptableError
    by = by or current_origin().who or current_origin().kind.value
    kept = AcceptedWarning(
        import_supplier_id=supplier.id,
        readiness_check=check,
        found=finding.detail,
        reason=reason,
        accepted_by=by,
    )
    session.add(kept)
    session.flush()
    session.refresh(kept)
    record(
        session,
        AuditAction.WARNING_ACCEPTED,
        "import_supplier",
        supplier.code,
        organisation_id=supplier.organisation_id,
        details={"check": check, "found": finding.detail, "because": reason, "by": by},
    )
    return _find(finding.check, finding.said, finding.values, {(check, finding.detail): kept})


def _list_accepted(session: Session, import_supplier_id: int) -> dict[tuple[str, str], AcceptedWarning]:
    own = select(AcceptedWarning).where(AcceptedWarning.import_supplier_id == import_supplier_id)
    return {
        (it.readiness_check, it.found): it
        for it in session.scalars(own.order_by(AcceptedWarning.accepted_at))
    }
