"""Undoing waves: their plan holds meanwhile, and the wave is decided about once more afterwards."""

from collections.abc import Iterator
from itertools import count
from typing import Any
from unittest.mock import patch

import pytest
from sqlalchemy import update

from migration_service.errors import WaveStateError
from migration_service.models import Batch, BatchChunk, WavePlan
from migration_service.services.batches.intake import upload as batch_upload
from migration_service.services.batches.work.execution import perform_chunk
from migration_service.services.undo.orders import UndoOrder
from migration_service.services.undo.starting import start_undo
from migration_service.services.waves.sweep import advance_plan
from migration_service.states import UndoState
from support.audit import audited
from support.batch_client import counts
from support.go_lives import GoLiveClient
from support.imported_account import codes_of, refusal_of
from support.interleavings import COMMIT, Script, explore
from support.supplier_client import SupplierClient
from support.undo_client import UndoClient
from support.wave_client import DAY, EVENING, NIGHT, NOON, WaveClient

pytestmark = pytest.mark.usefixtures("neighbour")


@pytest.fixture(autouse=True)
def _short_chunks() -> Iterator[None]:
    with patch.object(batch_upload, "CHUNK_LINES", 5):
        yield


def _pilot(waves: WaveClient, beginning: str = "", **more: Any) -> dict[str, Any]:
    """Return a plan of two waves. The first one, of four accounts, is created and CLEAN."""
    for account in waves.supplier.accounts(6):
        account["external_account_number"] = f"{beginning}{account['external_account_number']}"
        assert waves.supplier.stage(account).status_code == 201
    plan = waves.plan({"size": 4}, {"rest": True, "window": NIGHT}, **more)
    assert waves.act(plan, 1, "start").status_code == 200
    waves.run()
    assert waves.states(plan)[0] == "CLEAN"
    return plan


def _wave(plan: dict[str, Any], number: int = 1) -> dict[str, Any]:
    return {"plan_id": plan["plan_id"], "number": number}


def _evening(waves: WaveClient) -> dict[str, Any]:
    """Return a plan of two waves in the evening, when the second one has begun."""
    plan = _pilot(waves, continue_if_clean=True)
    waves.now = EVENING
    waves.sweep()
    assert waves.states(plan) == ["CLEAN", "RUNNING"]
    return plan


def _refused(answer: Any) -> str:
    assert refusal_of(answer) == (400, "wave_state_conflict"), answer.text
    return str(answer.json["errors"][0]["detail"])


def _actions(waves: WaveClient, plan: dict[str, Any]) -> list[str]:
    return [it.action for it in audited(waves.supplier.Session, subject=f"{plan['plan_id']} 1")]


def test_a_wave_that_was_undone_and_corrected_is_imported_again_without_a_file(
    waves: WaveClient, undos: UndoClient
) -> None:
    plan = _pilot(waves)
    numbers = sorted(it["external_account_number"] for it in waves.supplier.accounts(6))[:4]
    created = {it: waves.supplier.process_row(it).service_account_number for it in numbers}
    undos.run(*numbers[:2])
    for payload in waves.supplier.accounts(6):
        if payload["external_account_number"] in numbers[1:3]:
            waves.supplier.stage(payload | {"billing_address1": "Keizersgracht 1"})
    target = {"import_supplier": waves.supplier.code, "wave": _wave(plan)}
    later = target | {"wave": _wave(plan, 2), "reason": "Too early."}
    _refused(waves.supplier.post("/replacements/", later))
    preview = waves.supplier.post("/replacements/preview/", target).json or {}
    assert [preview[it] for it in ("accounts", "replaced", "created", "unchanged")] == [4, 1, 2, 1]
    answer = waves.supplier.post("/replacements/", target | {"reason": "It was undone."})
    assert answer.status_code == 202, answer.text
    waves.run()
    assert counts(waves.supplier.get(f"/batches/{(answer.json or {})['batch_id']}/").json or {}) == {
        "IMPORTED": 2,
        "REPLACED": 1,
    }
    rows = {it: waves.supplier.process_row(it) for it in numbers}
    assert [rows[it].service_account_number == created[it] for it in numbers] == [False, False, True, True]
    addresses = [(rows[it].payload or {})["billing_address1"] for it in numbers[1:3]]
    assert addresses == ["Keizersgracht 1"] * 2
    assert waves.act(plan, 1, "reconcile").status_code == 200
    waves.run()
    assert waves.states(plan)[0] == "CLEAN"
    assert GoLiveClient(waves.supplier).run(batch=(answer.json or {})["batch_id"])["accounts"] == 3


def test_an_approved_wave_is_previewed_and_undone_and_waits_for_a_person(
    waves: WaveClient, undos: UndoClient
) -> None:
    plan = _pilot(waves)
    assert waves.act(plan, 1, "approve", reason="Compared by hand.").status_code == 200
    waves.sweep()
    expected = {"plan_id": plan["plan_id"], "wave_number": 1, "batch_id": plan["waves"][0]["batch_id"]}
    expected |= {"accounts": 4, "revertible": 4}
    assert undos.preview(wave=_wave(plan)).items() >= expected.items()

    undo_id = undos.start(wave=_wave(plan))
    waves.now = EVENING
    waves.run()
    held = waves.get(plan)
    assert (held["undo_id"], waves.states(plan)) == (undo_id, ["APPROVED", "WAITING"])
    for wave, action, body in ((2, "start", {}), (1, "reconcile", {}), (1, "approve", {"reason": "Again."})):
        assert undo_id in _refused(waves.act(plan, wave, action, **body))

    undos.work(undo_id)
    report = undos.get(undo_id)
    assert (report["state"], report["counts"]["REVERTED"]) == ("COMPLETED", 4)
    assert (report["plan_id"], report["wave_number"]) == (plan["plan_id"], 1)
    waves.run()
    wave = waves.get(plan)["waves"][0]
    assert (wave["state"], wave["open"], wave["differing"], wave["reverted"]) == ("DIFFERS", 4, 0, 4)
    assert (wave["decided_by"], wave["decided_at"], wave["decision_reason"]) == (None, None, None)
    assert (waves.get(plan)["undo_id"], waves.states(plan)[1]) == (None, "WAITING"), "its window is open"
    assert _actions(waves, plan)[-3:] == ["wave.approved", "wave.undone", "wave.found_different"]

    assert waves.act(plan, 1, "approve", reason="They are sent again.").status_code == 200
    waves.run()
    assert waves.states(plan) == ["APPROVED", "CLEAN"]


def test_a_wave_is_decided_about_again_if_one_of_its_accounts_is_undone_by_its_number(
    waves: WaveClient, undos: UndoClient
) -> None:
    plan = _pilot(waves)
    other = waves.supplier.accounts(7)[6]
    waves.batches.run([other])
    assert undos.run(other["external_account_number"])["counts"]["REVERTED"] == 1
    waves.sweep()
    assert waves.states(plan)[0] == "CLEAN", "the account is none of the wave's"
    assert waves.act(plan, 1, "approve", reason="Compared by hand.").status_code == 200

    number = waves.numbers(plan["waves"][0])[2]
    assert undos.run(number)["counts"]["REVERTED"] == 1
    waves.run()
    wave = waves.get(plan)["waves"][0]
    assert (wave["state"], wave["open"], wave["differing"], wave["reverted"]) == ("DIFFERS", 1, 0, 1)
    assert (wave["decided_by"], wave["decision_reason"]) == (None, None)
    assert waves.act(plan, 1, "approve", reason="It is sent later.").status_code == 200
    waves.sweep()
    assert waves.states(plan)[0] == "APPROVED", "the undo is counted once"


def test_a_wave_is_not_undone_while_its_plan_is_at_work(waves: WaveClient, undos: UndoClient) -> None:
    plan = _evening(waves)
    for target in ({"wave": _wave(plan)}, {"batch": plan["waves"][0]["batch_id"]}):
        assert "Wave 2 of the plan is running." in _refused(undos.post(**target))
    assert waves.act(plan, 2, "pause").status_code == 200
    undo_id = undos.start(wave=_wave(plan))
    assert undo_id in _refused(waves.act(plan, 2, "resume"))
    assert waves.act(plan, 2, "stop", reason="The mapping is wrong.").status_code == 200
    undos.work(undo_id)
    waves.run()
    assert waves.states(plan) == ["CLEAN", "STOPPED"], "the plan was finished before the undo was over"
    assert waves.get(plan)["waves"][0]["reverted"] == 4


def test_a_wave_that_is_being_reconciled_is_not_undone(waves: WaveClient, undos: UndoClient) -> None:
    plan = _pilot(waves)
    assert waves.act(plan, 1, "reconcile").status_code == 200
    assert "is being reconciled" in _refused(undos.post(wave=_wave(plan)))


@pytest.mark.parametrize("is_followed", [False, True])
def test_a_wave_between_two_windows_waits_for_a_person_once_it_is_undone(
    waves: WaveClient, undos: UndoClient, *, is_followed: bool
) -> None:
    waves.stage(7)
    plan = waves.plan({"rest": True, "window": NIGHT})
    waves.now = EVENING
    waves.sweep()
    batches = waves.batches
    for chunk in batches.dispatch():
        assert perform_chunk(batches.resources.Session, batches.resources.slots, chunk, reserve=50)
        waves.now = NOON + DAY
    if is_followed:
        waves.sweep()
    assert batches.get(plan["waves"][0]["batch_id"])["reason"] == "window_closed"
    assert undos.run(wave=_wave(plan))["counts"]["REVERTED"] == 5
    waves.now = EVENING + DAY
    waves.run()
    wave = waves.get(plan)["waves"][0]
    assert (wave["state"], wave["reason"], wave["reverted"]) == ("PAUSED", None, 5)
    assert waves.act(plan, 1, "resume").status_code == 200
    with waves.supplier.Session.begin() as session:
        dispatched = update(BatchChunk).where(BatchChunk.state == "DISPATCHED")
        session.execute(dispatched.values(state="PENDING"))
    waves.run()
    wave = waves.get(plan)["waves"][0]
    assert (wave["state"], wave["open"], wave["counts"]["IMPORTED"]) == ("DIFFERS", 5, 7)


def test_a_plan_goes_on_if_an_undo_has_kept_every_account(waves: WaveClient, undos: UndoClient) -> None:
    plan = _pilot(waves, continue_if_clean=True)
    undo_id = undos.start(wave=_wave(plan))
    assert waves.supplier.post(f"/undos/{undo_id}/cancel/").status_code == 200
    waves.sweep()
    assert _actions(waves, plan)[-2:] == ["wave.undone", "wave.found_clean"]
    waves.now = EVENING
    waves.run()
    assert waves.states(plan) == ["CLEAN", "CLEAN"]


def test_a_finished_plan_stays_as_it_was_decided(waves: WaveClient, undos: UndoClient) -> None:
    waves.stage(2)
    plan = waves.plan({"rest": True})
    assert waves.act(plan, 1, "start").status_code == 200
    waves.run()
    assert waves.act(plan, 1, "approve", reason="Fine.").status_code == 200
    waves.sweep()
    undos.run(wave=_wave(plan))
    waves.run()
    report = waves.get(plan)
    (wave,) = report["waves"]
    assert (wave["state"], wave["decision_reason"], wave["reverted"]) == ("APPROVED", "Fine.", 2)
    assert report["finished_at"] is not None
    assert waves.plan({"rest": True})["waves"][0]["lines"] == 2, "what was reverted can be planned again"


def test_what_is_to_be_undone_exists_is_of_the_supplier_and_is_said_in_one_way(
    waves: WaveClient, undos: UndoClient
) -> None:
    waves.stage(1)
    plan = waves.plan({"rest": True})
    supplier = waves.supplier
    stranger = UndoClient(SupplierClient.create(supplier.app, supplier.Session))
    for client, wave, code in (
        *((undos, _wave(plan, number), "wave_not_found") for number in (0, 2, 2**31 - 1)),
        (stranger, _wave(plan), "wave_plan_not_found"),
        (undos, {"plan_id": "no plan", "number": 1}, "wave_plan_not_found"),
        (undos, {"plan_id": plan["waves"][0]["batch_id"], "number": 1}, "wave_plan_not_found"),
    ):
        assert refusal_of(client.post(wave=wave)) == (404, code)
    for also in ({"batch": "x"}, {"external_account_numbers": ["1"]}):
        answer = undos.post(wave=_wave(plan), **also)
        assert (answer.status_code, codes_of(answer)) == (400, [("external_account_numbers", "required")])
    assert [attr for attr, _ in codes_of(undos.post(wave={"plan_id": "x"}))] == ["wave.number"]


def test_a_sweep_and_an_undo_at_once_never_let_a_wave_begin_that_is_held(waves: WaveClient) -> None:
    client = UndoClient(waves.supplier)
    orders = count(1)

    def script() -> Script:
        waves.now = NOON
        plan = _pilot(waves, f"order {next(orders)} ", continue_if_clean=True)
        waves.sweep()
        waves.now = EVENING

        def undo(session: Any) -> str:
            known, batch = waves.supplier.known(), session.get_one(Batch, waves.batch_id(plan, 1))
            return str(start_undo(session, UndoOrder(supplier=known, batch=batch, reason="A test.")))

        def sweep(session: Any) -> None:
            advance_plan(session, session.get_one(WavePlan, plan["plan_id"]).id)
            session.flush()

        run = yield {"sweep": [("carry on", sweep), COMMIT], "person": [("undo", undo), COMMIT]}
        undo_id = run.results["person.undo"]
        is_refused = isinstance(undo_id, WaveStateError)
        assert list(run.errors) == ["person.undo"] * is_refused
        assert waves.states(plan)[1] == ("RUNNING" if is_refused else "WAITING")
        if not is_refused:
            client.work(undo_id)
            assert client.get(undo_id)["state"] == UndoState.COMPLETED
        assert waves.act(plan, 2, "stop", reason="The next order.").status_code == 200
        waves.run()
        for wave in waves.get(plan)["waves"]:
            if wave["state"] not in ("STOPPED", "CLEAN"):
                waves.act(plan, wave["number"], "approve", reason="The next order.")
        waves.sweep()

    assert explore(waves.supplier.Session, script, may_raise=True) > 3
