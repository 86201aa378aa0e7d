"""What people do with waves: what is possible, and what becomes of the wave, its batch and the audit."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import func, update
from sqlalchemy.orm import Session, sessionmaker

from migration_service import errors
from migration_service.models import AccountImportProcess, Batch, Wave, WavePlan
from migration_service.origin import ActorKind, Origin, acting_as
from migration_service.services.batches.results.reverted import Reverted, count_reverted
from migration_service.services.waves.acts import (
    approve_wave,
    pause_wave,
    reconcile_wave,
    resume_wave,
    start_wave,
    stop_wave,
)
from migration_service.services.waves.reading import list_waiting, list_waves
from migration_service.services.waves.running import stop_waves
from migration_service.services.waves.states import CHANGES, WaveChange, change_wave, is_over
from migration_service.states import BatchState, ImportState, UndoOutcome, WaveState
from support.factories import Customer
from unit.services.undo.undo_rows import add_pending
from unit.services.waves.wave_rows import (
    CLOSED_NOW,
    EVENING,
    acts,
    add_to_wave,
    batch_of,
    make_plan,
    make_wave,
    undo_wave,
)

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
    with pytest.raises(errors.WaveStateError, match="An earlier wave has not ended"):
        act(session, plan, wave)
    earlier.state, earlier.reconciled_at = WaveState.APPROVED, now
    undo_wave(session, customer, earlier, finished_at=LATER)
    with pytest.raises(errors.WaveStateError, match="An earlier wave has not ended"):
        act(session, plan, wave)
    assert (earlier.state, wave.state) == ("RECONCILING", state), "what was approved does not exist any more"


def test_outside_of_its_window_a_wave_is_not_started_and_a_person_may_keep_it_out_of_the_next_one(
    session: Session, customer: Customer, other: Customer, now: datetime
) -> None:
    plan, wave = make_wave(session, customer, WaveState.WAITING, time_window=CLOSED_NOW)
    with pytest.raises(errors.WaveWindowClosedError, match="It opens at 2026-03-03T06:00:00Z"):
        start_wave(session, plan, wave)
    assert (wave.state, batch_of(session, wave).state) == ("WAITING", "PAUSED")
    closed = "window_closed"
    plan, wave = make_wave(session, other, WaveState.PAUSED, time_window=CLOSED_NOW, reason=closed)
    batch = batch_of(session, wave, reason=closed)
    for act, reason in ((pause_wave, None), (resume_wave, closed)):
        act(session, plan, wave)
        assert (wave.state, wave.reason, batch.reason) == ("PAUSED", reason, reason)
    assert batch.runs_until == now, "also if somebody resumes the batch on its own"
    assert [action for action, _, _ in acts(session)] == ["wave.paused", "wave.released"]


@pytest.mark.parametrize("name", ["reconcile", "approve"])
@pytest.mark.parametrize("state", [BatchState.RUNNING, BatchState.PAUSED])
def test_a_wave_whose_failed_lines_are_retried_is_neither_reconciled_nor_approved(
    session: Session, customer: Customer, name: str, state: BatchState
) -> None:
    act, before = _ACTS[name]
    plan, wave = make_wave(session, customer, before)
    batch_of(session, wave, state=state)
    with pytest.raises(errors.WaveStateError, match=f"The wave is {before}, and its batch has not ended"):
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
    session: Session, customer: Customer, act: Any, *, origin: Origin, by: str | None, expected: str | None
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
    with pytest.raises(errors.WaveStateError) as raised:
        act(session, plan, wave, reason="enough")
    assert raised.value.detail == said
    assert [it.state for it in list_waves(session, plan.id)] == states
    assert (wave.decided_by, wave.decision_reason, acts(session)) == (*before, [])


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.action.value)
def test_a_change_is_made_from_its_sources_and_refused_from_every_other_state(
    session: Session, customer: Customer, change: WaveChange
) -> None:
    plan, wave = make_wave(session, customer, WaveState.PLANNED)
    for state in WaveState:
        wave.state, wave.reason = state, "before"
        if state not in change.sources:
            refusal = f"The wave is {state}. This is only possible if it is {' or '.join(change.sources)}."
            with pytest.raises(errors.WaveStateError, match=f"^{refusal}$"):
                change_wave(session, plan, wave, change)
            expected: tuple[str, str | None] = (state, "before")
        else:
            change_wave(session, plan, wave, change)
            expected = (change.target, None)
        session.flush()
        assert (wave.state, wave.reason) == expected
    batch = {"batch_id": str(wave.batch_id)}
    assert acts(session) == [(change.action, "1", batch)] * len(change.sources)


@pytest.mark.parametrize(
    ("of_plan", "of_wave", "continues"),
    [(True, None, True), (False, None, False), (True, False, False), (False, True, True)],
)
def test_the_next_wave_may_begin_after_a_decision_or_a_clean_wave_if_that_or_the_plan_says_so(
    session: Session, customer: Customer, *, of_plan: bool, of_wave: bool | None, continues: bool
) -> None:
    plan, wave = make_wave(session, customer, WaveState.PLANNED, continue_if_clean=of_wave)
    plan.continue_if_clean = of_plan
    over = set()
    for state in WaveState:
        wave.state = state
        if is_over(plan, wave):
            over.add(state)
    clean = {WaveState.CLEAN} if continues else set()
    assert over == {WaveState.APPROVED, WaveState.STOPPED} | clean


CLEAN, RUNNING, PLANNED = WaveState.CLEAN, WaveState.RUNNING, WaveState.PLANNED


def test_a_wave_and_those_after_it_are_stopped_and_their_batches_cancelled(
    session: Session, customer: Customer, other: Customer
) -> None:
    plan = make_plan(session, customer, CLEAN, WaveState.DIFFERS, RUNNING, PLANNED)
    elsewhere = make_plan(session, other, CLEAN, RUNNING, PLANNED)
    waves = list_waves(session, plan.id)
    stop_waves(session, plan, waves[1], reason="enough", actor="ann")
    assert [it.state for it in list_waves(session, plan.id)] == ["CLEAN", *["STOPPED"] * 3]
    assert [batch_of(session, it).state for it in waves] == [*["COMPLETED"] * 2, *["CANCELLED"] * 2]
    assert [(it.decided_by, it.decision_reason) for it in waves] == [(None, None), *[("ann", "enough")] * 3]
    assert [isinstance(it.decided_at, datetime) for it in waves] == [False, True, True, True]
    because = [{"because": "enough", "batch_id": str(it.batch_id)} for it in waves]
    assert acts(session) == [("wave.stopped", str(number), because[number - 1]) for number in (2, 3, 4)]
    assert plan.finished_at is None, "nobody has decided about the first wave"
    others = list_waves(session, elsewhere.id)
    assert [it.state for it in others] == ["CLEAN", "RUNNING", "PLANNED"]
    assert [batch_of(session, it).state for it in others] == ["COMPLETED", "RUNNING", "PAUSED"]


def test_a_batch_that_another_session_has_completed_stays_completed(
    sessions: sessionmaker[Session], customer: Customer
) -> None:
    with sessions() as session:
        plan, wave = make_wave(session, customer, RUNNING)
        batch = batch_of(session, wave)
        session.commit()
        with sessions.begin() as another:
            another.execute(update(Batch).values(state=BatchState.COMPLETED))
        stop_waves(session, plan, wave, reason="enough")
        assert (wave.state, batch.state) == ("STOPPED", "COMPLETED")


REVERTED, KEPT = UndoOutcome.REVERTED, UndoOutcome.KEPT


def test_reverted_accounts_are_counted_by_the_wave_that_created_them(
    session: Session, customer: Customer, other: Customer
) -> None:
    plan = make_plan(session, customer, WaveState.APPROVED, WaveState.APPROVED, WaveState.STOPPED)
    first, second, third = list_waves(session, plan.id)
    one, two, three = add_pending(session, customer, "one", "two", "three")
    for wave, number, account in [(first, "one", "A-1"), (first, "two", "A-2"), (second, "three", "A-3")]:
        add_to_wave(session, wave, number, account)
    # What was created again later, by another wave, under another number.
    add_to_wave(session, third, "one", "A-9")
    undo_wave(session, customer, first, [(one, "A-1", REVERTED), (two, "A-2", KEPT)])
    undo_wave(session, customer, None, [(two, "A-2", REVERTED), (three, "A-3", REVERTED), (one, "A-9", KEPT)])
    _, foreign = make_wave(session, other, WaveState.APPROVED)
    undo_wave(session, other, foreign, [(-it, f"A-{it}", REVERTED) for it in (1, 2, 3)])
    session.get_one(AccountImportProcess, two).state = ImportState.IMPORTED  # created again since then
    session.flush()
    mine = {first.batch_id: Reverted(2, again=1), second.batch_id: Reverted(1)}
    theirs = {foreign.batch_id: Reverted(3)}
    own = [first.batch_id, second.batch_id, third.batch_id]
    assert count_reverted(session, own) == mine
    assert count_reverted(session, [foreign.batch_id]) == theirs
    assert count_reverted(session, [*own, foreign.batch_id]) == mine | theirs


_FOUND = (WaveState.CLEAN, WaveState.DIFFERS)


@pytest.mark.parametrize("of_plan", [True, False])
@pytest.mark.parametrize("of_wave", [None, True, False])
def test_reconciled_waves_wait_unless_they_are_over(
    session: Session, customer: Customer, *, of_plan: bool, of_wave: bool | None
) -> None:
    plan = make_plan(session, customer, *WaveState, continue_if_clean=of_plan)
    expected: list[tuple[int, str, int]] = []
    for wave in list_waves(session, plan.id):
        wave.continue_if_clean = of_wave
        wave.reconciled_at = func.now() - timedelta(seconds=wave.number)
        if wave.state in _FOUND and not is_over(plan, wave):
            expected.insert(0, (wave.number, customer.import_supplier, wave.number))
    session.flush()
    found = list_waiting(session)
    assert [(it.wave.number, it.import_supplier, round(it.seconds)) for it in found] == expected


def test_a_wave_of_a_finished_plan_waits_for_nobody(session: Session, customer: Customer) -> None:
    make_plan(session, customer, WaveState.CLEAN, WaveState.DIFFERS, finished_at=EVENING)
    assert list_waiting(session) == []
