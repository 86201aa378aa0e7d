"""What people do with waves: start, pause, resume, compare again, approve and stop. Each is in the audit."""

from uuid import UUID

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from migration_service.errors import (
    WaveNotFoundError,
    WavePlanNotFoundError,
    WaveStateError,
    WaveWindowClosedError,
)
from migration_service.models import Batch, ImportSupplier, Wave, WavePlan
from migration_service.origin import current_origin
from migration_service.schemas.moments import write_moment
from migration_service.services.audit.entries import AuditAction
from migration_service.services.batches import clock
from migration_service.services.batches.control import take_over
from migration_service.services.batches.states import OPEN, WINDOW_CLOSED, change_batch, pause_by_window
from migration_service.services.batches.states import PAUSE as PAUSE_BATCH
from migration_service.services.setup.suppliers import require_supplier_allowed
from migration_service.services.waves.progress import (
    begin_wave,
    closing_time,
    follow_batch,
    let_run,
    list_waves,
    lock_batch,
)
from migration_service.services.waves.states import (
    APPROVE,
    COMPARE,
    QUEUE,
    change_wave,
    is_over,
    record_act,
)
from migration_service.services.waves.stopping import stop_waves
from migration_service.services.waves.undecided import require_undecided
from migration_service.services.waves.undone import reconcile_undone, require_no_undo
from migration_service.services.waves.windows import Window, next_opening
from migration_service.states import BatchState, WaveState


def get_plan(session: Session, plan_id: str, *, organisation_id: int | None) -> WavePlan:
    """Return the organisation's plan (None: any organisation's, for operators).

    Raise WavePlanNotFoundError if it does not exist.
    """
    try:
        wanted = UUID(plan_id)
    except ValueError:
        raise WavePlanNotFoundError(found=plan_id) from None
    plan = session.get(WavePlan, wanted)
    if plan is None or organisation_id not in (None, plan.organisation_id):
        raise WavePlanNotFoundError(found=plan_id)
    if organisation_id is not None:
        supplier = session.get_one(ImportSupplier, plan.import_supplier_id)
        require_supplier_allowed(supplier.id, supplier.code)
    return plan


def lock_wave(session: Session, plan: WavePlan, number: int) -> Wave:
    """Lock the plan, and return its wave of this number. Raise WaveNotFoundError if there is none."""
    # Not its key: a foreign key of a wave, which somebody else may have locked, would have to wait for it.
    session.refresh(plan, with_for_update={"key_share": True})
    return get_wave(session, plan, number)


def get_wave(session: Session, plan: WavePlan, number: int) -> Wave:
    """Return the wave of this number. Raise WaveNotFoundError if there is none."""
    wave = session.get(Wave, (plan.id, number), populate_existing=True) if number < 2**31 else None
    if wave is None:
        raise WaveNotFoundError(found=str(number))
    return wave


def start_wave(session: Session, plan: WavePlan, wave: Wave) -> None:
    """Begin a wave by hand. One that has a window only begins within it.

    Raise WaveStateError if it is not its turn, or accounts of the plan are being undone, and
    WaveWindowClosedError.
    """
    _require_turn(session, plan, wave)
    now = clock.read_clock(session)
    until = closing_time(wave, now)
    if wave.time_window is not None and until is None:
        opening = next_opening(Window.from_dict(wave.time_window), now)
        at = f" It opens at {write_moment(opening.opens_at)}." if opening else ""
        raise WaveWindowClosedError(f"{WaveWindowClosedError.default_detail}{at}")
    if wave.state == WaveState.PLANNED:
        change_wave(session, plan, wave, QUEUE)
    begin_wave(session, plan, wave, lock_batch(session, wave), until=until)


def pause_wave(session: Session, plan: WavePlan, wave: Wave) -> None:
    """Begin no further line until a person resumes the wave, also not in its next window.

    Raise WaveStateError if it neither runs nor waits for its next window.
    """
    batch = lock_batch(session, wave)
    if wave.state == WaveState.PAUSED and batch.reason == WINDOW_CLOSED:
        batch.reason = wave.reason = None
        record_act(session, plan, wave, AuditAction.WAVE_PAUSED, {"batch_id": str(batch.id)})
        return
    if wave.state != WaveState.RUNNING:
        raise WaveStateError(f"The wave is {wave.state}. This is only possible if it is RUNNING.")
    if batch.state in OPEN:
        change_batch(session, batch, PAUSE_BATCH)
    follow_batch(session, plan, wave, batch)


def resume_wave(session: Session, plan: WavePlan, wave: Wave) -> None:
    """Let a paused wave go on: now, or in its next window if its window is closed.

    The brake counts from now on. Raise WaveStateError if it is not paused, or it is not its turn, or accounts
    of the plan are being undone.
    """
    _require_turn(session, plan, wave)
    batch = lock_batch(session, wave)
    if wave.state != WaveState.PAUSED or batch.state not in (BatchState.PAUSED, BatchState.STOPPED):
        raise WaveStateError(f"The wave is {wave.state}. This is only possible if it is PAUSED.")
    now = clock.read_clock(session)
    until = closing_time(wave, now)
    is_closed = wave.time_window is not None and until is None
    # Whoever then resumes its batch by itself does not let it run outside the window either.
    let_run(session, batch, now if is_closed else until)
    take_over(session, batch)
    if is_closed:
        pause_by_window(session, batch.id)
        session.refresh(batch)
        record_act(session, plan, wave, AuditAction.WAVE_RELEASED, {"batch_id": str(batch.id)})
    follow_batch(session, plan, wave, batch)


def compare_wave(session: Session, plan: WavePlan, wave: Wave) -> None:
    """Compare a wave again, after something was corrected.

    Raise WaveStateError if it is not reconciled, or accounts of the plan are being undone.
    """
    require_no_undo(session, plan)
    _require_completed(session, wave)
    change_wave(session, plan, wave, COMPARE)
    wave.reconciled_to, wave.differing, wave.open = 0, None, None


def approve_wave(session: Session, plan: WavePlan, wave: Wave, *, reason: str, by: str | None = None) -> None:
    """Let the next wave begin, in its window if it has one, whatever reconciliation found.

    From now on the failed lines of this wave may be retried at any time. Raise WaveStateError if it is not
    reconciled, if it is over, as a clean wave is whose plan goes on by itself, or if accounts of the plan are
    being undone.
    """
    require_no_undo(session, plan)
    require_undecided(session, plan, wave)
    batch = _require_completed(session, wave)
    found = {"differing": wave.differing, "open": wave.open}
    told = {"because": reason, **({"by": by} if by else {}), **found}
    change_wave(session, plan, wave, APPROVE, details=told)
    wave.decided_by, wave.decided_at, wave.decision_reason = by or _actor(), func.now(), reason
    batch.runs_until = None


def stop_wave(session: Session, plan: WavePlan, wave: Wave, *, reason: str, by: str | None = None) -> None:
    """Stop a wave and every later one, for good. What was created stays.

    Raise WaveStateError if it is over.
    """
    require_undecided(session, plan, wave)
    stop_waves(session, plan, wave, reason=reason, by=by, actor=_actor())


def _require_turn(session: Session, plan: WavePlan, wave: Wave) -> None:
    """Raise WaveStateError if accounts of the plan are being undone, or an earlier wave is not over.

    An earlier wave whose accounts were undone while this one was paused is not over any more.
    """
    require_no_undo(session, plan)
    earlier = [it for it in list_waves(session, plan.id) if it.number < wave.number]
    for it in earlier:
        reconcile_undone(session, plan, it)
    if not all(is_over(plan, it) for it in earlier):
        raise WaveStateError("An earlier wave is not over. Wait for it, or approve it, first.")


def _require_completed(session: Session, wave: Wave) -> Batch:
    """Return the batch. Raise WaveStateError if it has not ended, or its failed lines are being retried."""
    batch = lock_batch(session, wave)
    if batch.state not in (BatchState.COMPLETED, BatchState.CANCELLED):
        raise WaveStateError(f"The wave is {wave.state}, and its batch has not ended. Wait until it has.")
    return batch


def _actor() -> str | None:
    origin = current_origin()
    return f"API key {origin.actor}" if origin.api_key_id else origin.actor


def list_plans(
    session: Session,
    *,
    organisation_id: int | None,
    import_supplier: str | None = None,
    only_open: bool = False,
    limit: int = 50,
) -> list[WavePlan]:
    """Return the organisation's plans (None: every organisation's), the newest first.

    `only_open` leaves out those that are finished.
    """
    statement = (
        select(WavePlan)
        .join(ImportSupplier, ImportSupplier.id == WavePlan.import_supplier_id)
        .order_by(WavePlan.id.desc())
        .limit(limit)
    )
    if organisation_id is not None:
        statement = statement.where(WavePlan.organisation_id == organisation_id)
    allowed = current_origin().import_supplier_ids
    if allowed is not None:
        statement = statement.where(WavePlan.import_supplier_id.in_(allowed))
    if import_supplier is not None:
        statement = statement.where(ImportSupplier.code == import_supplier)
    if only_open:
        statement = statement.where(WavePlan.finished_at.is_(None))
    return [*session.scalars(statement)]
