"""The overview names what needs somebody, however old it is, and what can be done about it at once."""

import pytest
from sqlalchemy import update
from sqlalchemy.orm import Session, sessionmaker

from batch_client import BatchClient
from console_client import ConsoleClient, LogIn
from migration_service.blueprints.console import overview
from migration_service.models import Ledger
from migration_service.services.access.operators import OperatorRole
from migration_service.states import WaveState
from wave_client import NIGHT, WaveClient


def test_an_old_batch_that_is_paused_is_named_among_newer_ones(
    administrator: ConsoleClient, batches: BatchClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(overview, "_NEWEST", 2)
    accounts = batches.supplier.accounts(4)
    old = batches.start(accounts[:1])
    administrator.send(f"/batches/{old}/pause/")
    for account in accounts[1:]:
        batches.run([account])
    page = administrator.see("/")
    assert "1 thing needs you. 1 batch is open." in page
    assert f"Batch {old[-12:]} is PAUSED, with 1 line left." in page


def test_a_batch_that_runs_can_be_paused_from_the_overview(
    administrator: ConsoleClient, log_in: LogIn, batches: BatchClient
) -> None:
    batch_id = batches.start(batches.supplier.accounts(1))
    pause = f"/console/batches/{batch_id}/pause/"
    assert pause in administrator.see("/")
    assert pause not in log_in(OperatorRole.READ).see("/")
    administrator.send(f"/batches/{batch_id}/pause/")
    assert pause not in administrator.see("/")


def test_a_wave_that_waits_for_its_window_is_no_open_batch(
    administrator: ConsoleClient, batches: BatchClient
) -> None:
    waves = WaveClient(batches)
    with waves.clock():
        waves.stage(2)
        waves.plan({"size": 1}, {"rest": True}, window=NIGHT)
        assert "Nothing needs you. No batch is open." in administrator.see("/")


def test_a_batch_that_its_brake_has_paused_is_named_with_that(
    administrator: ConsoleClient, batches: BatchClient
) -> None:
    accounts = batches.supplier.accounts(300)
    for account in accounts[:200]:
        account["customers"] = "nobody"
    batch_id = batches.start(accounts, stop_after_errors="50")
    batches.work()
    page = administrator.see("/")
    assert f"Batch {batch_id[-12:]} has too many errors: its brake has paused it" in page


def test_a_wave_that_differs_is_named_with_that(
    administrator: ConsoleClient, batches: BatchClient, sessions: sessionmaker[Session]
) -> None:
    waves = WaveClient(batches)
    with waves.clock():
        waves.stage(2)
        plan = waves.plan({"size": 1}, {"rest": True})
        waves.act(plan, 1, "start")
        waves.run()
        with sessions.begin() as session:
            session.execute(update(Ledger).values(ledger_balance=-1))
        waves.act(plan, 1, "reconcile")
        waves.run()
        assert waves.states(plan)[0] == WaveState.DIFFERS
        assert "differs from what was staged, and waits for your decision" in administrator.see("/")
