"""The page of a supplier, and the comparison of what it sent with what was created."""

import pytest
from sqlalchemy import update
from sqlalchemy.orm import Session, sessionmaker

from batch_client import BatchClient
from console_client import ConsoleClient
from migration_service.blueprints.console import suppliers
from migration_service.models import Ledger
from migration_service.services.access.api_keys import find_prefix
from supplier_client import SupplierClient
from wave_client import WaveClient


def test_the_keys_are_those_of_its_organisation_that_are_not_revoked(
    administrator: ConsoleClient, batches: BatchClient
) -> None:
    own = find_prefix(batches.supplier.api_key)
    other = SupplierClient.create(batches.supplier.app, batches.supplier.Session)
    page = f"/suppliers/{batches.supplier.code}/"
    shown = administrator.see(page)
    assert f">{own}<" in shown
    assert str(find_prefix(other.api_key)) not in shown
    administrator.send(f"/setup/keys/{own}/revoke/")
    assert f">{own}<" not in administrator.see(page)


def test_the_wave_that_was_reconciled_last_is_named(
    administrator: ConsoleClient, batches: BatchClient
) -> None:
    waves, page = WaveClient(batches), f"/suppliers/{batches.supplier.code}/"
    with waves.clock():
        waves.stage(2)
        plan = waves.plan({"size": 1}, {"rest": True})
        for number in (1, 2):
            assert f"Reconciliation of wave {number}" not in administrator.see(page)
            waves.act(plan, number, "start")
            waves.run()
            assert f"Reconciliation of wave {number}" in administrator.see(page)
            waves.act(plan, number, "approve", reason="It is right.")
        assert "Reconciliation of wave 1" not in administrator.see(page)


def test_a_large_book_is_compared_when_somebody_asks_for_it(
    administrator: ConsoleClient,
    batches: BatchClient,
    sessions: sessionmaker[Session],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first, second, third = batches.supplier.accounts(3)
    batches.run([first, second])
    last = batches.run([third])["batch_id"]
    with sessions.begin() as session:
        session.execute(update(Ledger).values(ledger_balance=-1))
    page = f"/suppliers/{batches.supplier.code}/reconciliation/"
    all_differ = "Nothing is open. 3 created accounts differ."
    assert administrator.lead(page) == all_differ
    assert administrator.lead(f"{page}?batch={last}") == "Nothing is open. 1 created account differs."
    monkeypatch.setattr(suppliers, "_LARGE", 2)
    assert administrator.lead(page) == "Nothing is open. The created accounts were not compared yet."
    assert administrator.lead(f"{page}?compare=1") == all_differ
    monkeypatch.setattr(suppliers, "_LARGE", 3)
    assert administrator.lead(page) == all_differ
