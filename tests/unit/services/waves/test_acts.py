"""What people do with waves: what is possible, and what becomes of the wave, its batch and the audit."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import func, insert, select, update
from sqlalchemy.orm import Session, sessionmaker

from migration_service.db.base import new_id
from migration_service.errors import (
    PermissionDeniedError,
    WaveNotFoundError,
    WavePlanNotFoundError,
    WaveStateError,
    WaveWindowClosedError,
)
from migration_service.models import ApiKey, Wave, WavePlan
from migration_service.origin import ActorKind, Origin, acting_as
from migration_service.services.waves.acts import (
    approve_wave,
    compare_wave,
    pause_wave,
    resume_wave,
    start_wave,
    stop_wave,
)
from migration_service.services.waves.reading import get_plan, list_plans, list_waves, lock_wave
from migration_service.states import BatchState, WaveState
from support.factories import Customer
from unit.services.waves.wave_rows import (
    CLOSED_NOW,
    EVENING,
    MIDNIGHT,
    OPEN_NOW,
    acts,
    add_undo,
    batch_of,
    make_plan,
    make_wave,
)

Act = Callable[[Session, WavePlan, Wave], None]

LATER = EVENING + timedelta(seconds=1)
_ACTS: dict[str, tuple[Act, WaveState]] = {
    "start": (start_wave, WaveState.WAITING),
    "resume": (resume_wave, WaveState.PAUSED),
    "reconcile": (compare_wave, WaveState.CLEAN),
    "approve": (lambda *args: approve_wave(*args, reason="known"), WaveState.DIFFERS),
}


def test_a_plan_is_found_by_its_id_by_those_who_may_see_it(
    session: Session, customer: Customer, other: Customer
) -> None:
    plan = make_plan(session, customer, WaveState.WAITING)
    for organisation_id in (None, customer.organisation_id):
        assert get_plan(session, str(plan.id), organisation_id=organisation_id) is plan
    for wanted, organisation_id in (
        (plan.id, other.organisation_id),
        (new_id(), customer.organisation_id),
        ("nothing", None),
    ):
        with pytest.raises(WavePlanNotFoundError, match=str(wanted)):
            get_plan(session, str(wanted), organisation_id=organisation_id)
    limited = Origin(kind=ActorKind.API_KEY, import_supplier_ids=frozenset({plan.import_supplier_id + 1}))
    with acting_as(limited), pytest.raises(PermissionDeniedError, match=customer.import_supplier):
        get_plan(session, str(plan.id), organisation_id=customer.organisation_id)


def test_a_wave_is_locked_with_its_plan_and_both_are_as_they_are_now(
    sessions: sessionmaker[Session], customer: Customer
) -> None:
    with sessions() as session:
        plan, wave = make_wave(session, customer, WaveState.WAITING)
        session.commit()
        with sessions.begin() as another:
            another.execute(update(WavePlan).values(name="the plan"))
            another.execute(update(Wave).values(name="the wave"))
        assert lock_wave(session, plan, 1) is wave
        assert (plan.name, wave.name) == ("the plan", "the wave")
        with sessions() as another:
            row = select(WavePlan.id)
            free = row.with_for_update(skip_locked=True, key_share=True)
            assert another.scalars(free).all() == []
            to_refer_to = row.with_for_update(skip_locked=True, key_share=True, read=True)
            assert another.scalars(to_refer_to).all() == [plan.id]


def test_a_wave_that_the_plan_does_not_have_is_not_found(session: Session, customer: Customer) -> None:
    plan = make_plan(session, customer, WaveState.WAITING)
    for number in (0, 2, 2**31 - 1, 2**31, 10**20):
        with pytest.raises(WaveNotFoundError, match=f"no wave '{number}'"):
            lock_wave(session, plan, number)


@pytest.mark.parametrize("name", _ACTS)
def test_while_accounts_of_the_plan_are_being_undone_nothing_goes_on(
    session: Session, customer: Customer, now: datetime, name: str
) -> None:
    act, state = _ACTS[name]
    plan = make_plan(session, customer, WaveState.APPROVED, state)
    undone, wave = list_waves(session, plan.id)
    undo = add_undo(session, customer, undone)
    with pytest.raises(WaveStateError, match=f"Undo {undo.id}"):
        act(session, plan, wave)
    assert (wave.state, acts(session)) == (state, [])
    undo.finished_at = now
    session.flush()
    act(session, plan, wave)
    assert wave.state != state


@pytest.mark.parametrize("name", ["start", "resume"])
def test_a_wave_neither_begins_nor_goes_on_before_its_turn(
    session: Session, customer: Customer, now: datetime, name: str
) -> None:
    act, state = _ACTS[name]
    plan = make_plan(session, customer, WaveState.CLEAN, state, WaveState.RUNNING)
    earlier, wave, _ = list_waves(session, plan.id)
    with pytest.raises(WaveStateError, match="An earlier wave is not over"):
        act(session, plan, wave)
    earlier.state, earlier.reconciled_at = WaveState.APPROVED, now
    add_undo(session, customer, earlier, finished_at=LATER)
    with pytest.raises(WaveStateError, match="An earlier wave is not over"):
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


@pytest.mark.usefixtures("now")
@pytest.mark.parametrize("window", [None, OPEN_NOW])
@pytest.mark.parametrize("state", [WaveState.PLANNED, WaveState.WAITING])
def test_a_wave_is_started_by_hand(
    session: Session, customer: Customer, state: WaveState, window: dict[str, Any] | None
) -> None:
    plan = make_plan(session, customer, WaveState.CLEAN, state, continue_if_clean=True)
    wave = list_waves(session, plan.id)[1]
    wave.time_window = window
    start_wave(session, plan, wave)
    batch = batch_of(session, wave)
    assert (wave.state, wave.began_at) == ("RUNNING", EVENING)
    assert (batch.state, batch.runs_until) == ("RUNNING", MIDNIGHT if window else None)
    told = ["wave.queued", "wave.began"] if state == "PLANNED" else ["wave.began"]
    assert [(action, number) for action, number, _ in acts(session)] == [(action, "2") for action in told]


@pytest.mark.usefixtures("now")
def test_outside_its_window_a_wave_is_not_started(session: Session, customer: Customer) -> None:
    plan, wave = make_wave(session, customer, WaveState.WAITING, time_window=CLOSED_NOW)
    with pytest.raises(WaveWindowClosedError, match=r"It opens at 2026-03-03T06:00:00Z\.$"):
        start_wave(session, plan, wave)
    assert (wave.state, batch_of(session, wave).state) == ("WAITING", "PAUSED")


@pytest.mark.parametrize("state", [BatchState.RUNNING, BatchState.WAITING])
def test_a_wave_is_paused_by_hand(session: Session, customer: Customer, state: BatchState) -> None:
    plan, wave = make_wave(session, customer, WaveState.RUNNING)
    batch = batch_of(session, wave, state=state, reason="why it waits")
    pause_wave(session, plan, wave)
    assert (wave.state, wave.reason, batch.state, batch.reason) == ("PAUSED", None, "PAUSED", None)
    assert acts(session) == [("wave.paused", "1", {"batch_id": str(batch.id)})]


def test_a_wave_whose_batch_has_stopped_by_itself_is_paused_for_the_reason_of_the_batch(
    session: Session, customer: Customer
) -> None:
    plan, wave = make_wave(session, customer, WaveState.RUNNING)
    batch_of(session, wave, state=BatchState.PAUSED, reason="error_threshold_reached")
    pause_wave(session, plan, wave)
    assert (wave.state, wave.reason) == ("PAUSED", "error_threshold_reached")


def test_a_wave_between_two_windows_is_kept_out_of_the_next_one(session: Session, customer: Customer) -> None:
    plan, wave = make_wave(session, customer, WaveState.PAUSED, reason="window_closed")
    batch = batch_of(session, wave, reason="window_closed")
    pause_wave(session, plan, wave)
    assert (wave.state, wave.reason, batch.state, batch.reason) == ("PAUSED", None, "PAUSED", None)
    assert acts(session) == [("wave.paused", "1", {"batch_id": str(batch.id)})]
    with pytest.raises(WaveStateError, match="The wave is PAUSED"):
        pause_wave(session, plan, wave)


@pytest.mark.usefixtures("now")
@pytest.mark.parametrize(("window", "until"), [(None, None), (OPEN_NOW, MIDNIGHT)])
@pytest.mark.parametrize("state", [BatchState.PAUSED, BatchState.STOPPED])
def test_a_paused_wave_goes_on(
    session: Session,
    customer: Customer,
    state: BatchState,
    window: dict[str, Any] | None,
    until: datetime | None,
) -> None:
    plan, wave = make_wave(session, customer, WaveState.PAUSED, time_window=window, reason="why")
    batch = batch_of(session, wave, state=state, reason="why", runs_until=EVENING)
    resume_wave(session, plan, wave)
    assert (wave.state, wave.reason) == ("RUNNING", None)
    assert (batch.state, batch.reason, batch.runs_until) == ("RUNNING", None, until)
    assert batch.brake_since is not None
    assert [action for action, _, _ in acts(session)] == ["wave.went_on"]


@pytest.mark.usefixtures("now")
def test_outside_its_window_a_resumed_wave_waits_for_the_next_one(
    session: Session, customer: Customer
) -> None:
    plan, wave = make_wave(session, customer, WaveState.PAUSED, time_window=CLOSED_NOW)
    batch = batch_of(session, wave, runs_until=None)
    resume_wave(session, plan, wave)
    assert (wave.state, wave.reason) == ("PAUSED", "window_closed")
    assert (batch.state, batch.reason, batch.runs_until) == ("PAUSED", "window_closed", EVENING)
    assert batch.brake_since is not None, "whoever resumed it has seen the errors"
    assert acts(session) == [("wave.released", "1", {"batch_id": str(batch.id)})]


@pytest.mark.usefixtures("now")
def test_a_wave_whose_key_was_revoked_goes_on_under_that_of_whoever_resumes_it(
    session: Session, customer: Customer, other: Customer
) -> None:
    keys = {it.prefix: it for it in session.scalars(select(ApiKey))}
    keys[customer.prefix].revoked_at = func.now()
    plan, wave = make_wave(session, customer, WaveState.PAUSED)
    batch = batch_of(session, wave, api_key_id=keys[customer.prefix].id)
    with acting_as(Origin(kind=ActorKind.API_KEY, api_key_id=keys[other.prefix].id)):
        resume_wave(session, plan, wave)
    assert (batch.state, batch.api_key_id) == ("RUNNING", keys[other.prefix].id)


@pytest.mark.parametrize(
    ("state", "batch_state"),
    [
        (WaveState.RUNNING, BatchState.RUNNING),
        (WaveState.RUNNING, BatchState.PAUSED),
        (WaveState.PAUSED, BatchState.RUNNING),
        (WaveState.PAUSED, BatchState.COMPLETED),
    ],
)
def test_only_what_is_paused_is_resumed(
    session: Session, customer: Customer, state: WaveState, batch_state: BatchState
) -> None:
    plan, wave = make_wave(session, customer, state)
    batch_of(session, wave, state=batch_state)
    with pytest.raises(WaveStateError, match=f"The wave is {state}. .* if it is PAUSED"):
        resume_wave(session, plan, wave)


@pytest.mark.parametrize("state", [WaveState.CLEAN, WaveState.DIFFERS])
def test_a_wave_is_compared_from_its_beginning_again(
    session: Session, customer: Customer, state: WaveState
) -> None:
    plan, wave = make_wave(session, customer, state, reconciled_to=7, differing=1, open=2)
    compare_wave(session, plan, wave)
    assert (wave.state, wave.reconciled_to, wave.differing, wave.open) == ("RECONCILING", 0, None, None)


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


_CLEAN = "The wave is CLEAN, and its plan goes on without an approval."
_DECIDED = {"decided_by": "ann", "decided_at": EVENING}


@pytest.mark.parametrize(
    ("states", "second", "said"),
    [
        (["CLEAN", "RUNNING"], {"began_at": EVENING}, f"{_CLEAN} Wave 2 began at 2026-03-02T22:30:00Z."),
        (["CLEAN", "WAITING"], {}, f"{_CLEAN} Wave 2 has not begun: stop that one, if it must not."),
        (["CLEAN"], {}, f"{_CLEAN} It is the last wave of its plan."),
        (
            ["APPROVED", "CLEAN"],
            {"began_at": EVENING},
            "The wave was approved by ann at 2026-03-02T22:30:00Z already. "
            "Wave 2 began at 2026-03-02T22:30:00Z.",
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


def test_a_wave_that_was_undone_after_the_next_one_began_can_be_approved_again(
    session: Session, customer: Customer
) -> None:
    plan = make_plan(session, customer, WaveState.DIFFERS, WaveState.PAUSED, continue_if_clean=True)
    wave, following = list_waves(session, plan.id)
    following.began_at = EVENING
    approve_wave(session, plan, wave, reason="They come later")
    assert wave.state == "APPROVED"


def test_the_last_fifty_plans_are_listed_the_newest_first(session: Session, customer: Customer) -> None:
    plan = make_plan(session, customer, finished_at=EVENING)
    ids = [new_id() for _ in range(51)]
    columns = ("organisation_id", "import_supplier_id", "operations_team_id", "seed", "continue_if_clean")
    values = {name: getattr(plan, name) for name in columns} | {"finished_at": EVENING}
    # In an order of their own.
    session.execute(insert(WavePlan), [values | {"id": plan_id} for plan_id in sorted(ids, key=str)[::-1]])
    listed = [it.id for it in list_plans(session, organisation_id=customer.organisation_id)]
    assert listed == sorted(ids, reverse=True)[:50]


def test_plans_are_listed_for_those_who_may_see_them(
    session: Session, customer: Customer, other: Customer
) -> None:
    finished = make_plan(session, customer, WaveState.STOPPED, finished_at=EVENING)
    is_open = make_plan(session, customer, WaveState.WAITING)
    foreign = make_plan(session, other, WaveState.WAITING)

    def listed(organisation_id: int | None = None, **options: Any) -> list[Any]:
        return list_plans(session, organisation_id=organisation_id, **options)

    assert listed() == [foreign, is_open, finished]
    assert listed(customer.organisation_id) == [is_open, finished]
    assert listed(only_open=True) == [foreign, is_open]
    assert listed(import_supplier=customer.import_supplier) == [is_open, finished]
    assert listed(limit=1) == [foreign]
    limited = Origin(kind=ActorKind.API_KEY, import_supplier_ids=frozenset({foreign.import_supplier_id}))
    with acting_as(limited):
        assert listed() == [foreign]
