"""What people do with waves: what is possible, and what becomes of the wave, its batch and the audit."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
from sqlalchemy.orm import Session

from migration_service.errors import (
    WaveStateError,
)
from migration_service.models import Wave, WavePlan
from migration_service.origin import ActorKind, Origin, acting_as
from migration_service.services.waves.acts import (
    approve_wave,
    reconcile_wave,
    resume_wave,
    start_wave,
    stop_wave,
)
from migration_service.services.waves.reading import list_waves
from migration_service.states import BatchState, WaveState
from support.factories import Customer
from unit.services.waves.wave_rows import EVENING, acts, batch_of, make_plan, make_wave, undo_wave

Act = Callable[[Session, WavePlan, Wave], None]

LATER = EVENING + timedelta(seconds=1)
_ACTS: dict[str, tuple[Act, WaveState]] = {
    "start": (start_wave, WaveState.WAITING),
    "resume": (resume_wave, WaveState.PAUSED),
    "reconcile": (reconcile_wave, WaveState.CLEAN),
    "approve": (lambda *args: approve_wave(*args, reason="known"), WaveState.DIFFERS),
}


@pytest.mark.parametrize("name", ["start", "resume"])
def test_a_wave_neither_begins_nor_goes_on_before_its_turn(
    session: Session, customer: Customer, now: datetime, name: str
) -> None:
    act, state = _ACTS[name]
    plan = make_plan(session, customer, WaveState.CLEAN, state, WaveState.RUNNING)
    earlier, wave, _ = list_waves(session, plan.id)
    with pytest.raises(WaveStateError, match="An earlier wave has not ended"):
        act(session, plan, wave)
    earlier.state, earlier.reconciled_at = WaveState.APPROVED, now
    undo_wave(session, customer, earlier, finished_at=LATER)
    with pytest.raises(WaveStateError, match="An earlier wave has not ended"):
        act(session, plan, wave)
    assert (earlier.state, wave.state) == ("RECONCILING", state), "what was approved does not exist any more"


@pytest.mark.parametrize("name", ["reconcile", "approve"])
@pytest.mark.parametrize("state", [BatchState.RUNNING, BatchState.PAUSED])
def test_a_wave_whose_failed_lines_are_retried_is_neither_reconciled_nor_approved(
    session: Session, customer: Customer, name: str, state: BatchState
) -> None:
    act, before = _ACTS[name]
    plan, wave = make_wave(session, customer, before)
    batch_of(session, wave, state=state)
    with pytest.raises(WaveStateError, match=f"The wave is {before}, and its batch has not ended"):
        act(session, plan, wave)
    assert wave.state == before
    batch_of(session, wave, state=BatchState.CANCELLED)
    act(session, plan, wave)


@pytest.mark.parametrize(
    ("origin", "by", "expected"),
    [
        (Origin(kind=ActorKind.OPERATOR, actor="ann"), None, "ann"),
        (Origin(kind=ActorKind.API_KEY, actor="abcd", api_key_id=1), None, "API key abcd"),
        (Origin(kind=ActorKind.OPERATOR, actor="ann"), "ben", "ben"),
        (Origin(kind=ActorKind.SERVICE), None, None),
    ],
)
@pytest.mark.parametrize("act", [approve_wave, stop_wave])
def test_who_decides_why_and_what_about_is_kept_with_the_wave_and_in_the_audit(
    session: Session,
    customer: Customer,
    act: Any,
    *,
    origin: Origin,
    by: str | None,
    expected: str | None,
) -> None:
    plan, wave = make_wave(session, customer, WaveState.DIFFERS, differing=1, open=2)
    batch = batch_of(session, wave, runs_until=EVENING)
    with acting_as(origin):
        act(session, plan, wave, reason="known", by=by)
        session.flush()
    assert (wave.decided_by, wave.decision_reason) == (expected, "known")
    assert isinstance(wave.decided_at, datetime)
    found = {"differing": 1, "open": 2} if act is approve_wave else {}
    action = "wave.approved" if act is approve_wave else "wave.stopped"
    given = {"by": by} if by else {}
    assert acts(session) == [(action, "1", {"because": "known", "batch_id": str(batch.id), **found, **given})]
    if act is approve_wave:
        assert batch.runs_until is None, "its failed lines may be retried at any time"


_CLEAN = "The wave is CLEAN, and its plan continues without an approval."
_DECIDED = {"decided_by": "ann", "decided_at": EVENING}


@pytest.mark.parametrize(
    ("states", "second", "said"),
    [
        (["CLEAN", "RUNNING"], {"began_at": EVENING}, f"{_CLEAN} Wave 2 started at 2026-03-02T22:30:00Z."),
        (
            ["APPROVED", "CLEAN"],
            {"began_at": EVENING},
            "The wave was approved by ann at 2026-03-02T22:30:00Z already. "
            "Wave 2 started at 2026-03-02T22:30:00Z.",
        ),
        (
            ["STOPPED", "STOPPED"],
            {},
            "The wave was stopped by ann at 2026-03-02T22:30:00Z already. Every later wave is stopped.",
        ),
    ],
)
@pytest.mark.parametrize("act", [approve_wave, stop_wave])
def test_a_decision_about_a_wave_that_is_over_is_refused_and_says_what_became_of_it(
    session: Session, customer: Customer, act: Any, *, states: list[str], second: dict[str, Any], said: str
) -> None:
    plan = make_plan(session, customer, *map(WaveState, states), continue_if_clean=True)
    wave, *following = list_waves(session, plan.id)
    for name, value in [] if wave.state == "CLEAN" else _DECIDED.items():
        setattr(wave, name, value)
    for it in following:
        for name, value in second.items():
            setattr(it, name, value)
    session.flush()
    before = (wave.decided_by, wave.decision_reason)
    with pytest.raises(WaveStateError) as raised:
        act(session, plan, wave, reason="enough")
    assert raised.value.detail == said
    assert [it.state for it in list_waves(session, plan.id)] == states
    assert (wave.decided_by, wave.decision_reason, acts(session)) == (*before, [])
