"""E-mails to customers are held until their moment, released once, and withdrawn by an undo."""

from collections import Counter
from typing import Any

from sqlalchemy import select

from migration_service.db.sql import OpenTransaction
from migration_service.models import CustomerEmail
from migration_service.services.emails.customer_emails import (
    count_for_policy,
    count_held,
    set_policy,
)
from migration_service.services.processing.attempts import run_attempt
from migration_service.services.setup.suppliers import set_customer_emails
from migration_service.states import EmailMoment
from support.factories import json_of
from support.go_lives import GoLiveClient
from support.imported_account import ImportedAccount
from support.interleavings import COMMIT, Script, explore
from support.rows import set_live
from support.supplier_client import SupplierClient
from support.wave_client import WaveClient

_JANSEN = {"family_name": "Jansen", "email": "jansen@example.com"}


def _set(supplier: SupplierClient, at: EmailMoment | None = None, **values: Any) -> None:
    with supplier.Session.begin() as session:
        set_customer_emails(session, supplier.code, on=values.pop("on", True), at=at, **values)


def _change(supplier: SupplierClient, at: EmailMoment | None = None, *, on: bool = True) -> int:
    """Set the policy, and return how many e-mails it is said to release."""
    with supplier.Session.begin() as session:
        told = count_for_policy(session, supplier.known().id, at=at, moment=None) if on else 0
        set_policy(session, supplier.code, on=on, at=at)
        return told


def _states(supplier: SupplierClient) -> Counter[str]:
    with supplier.Session() as session:
        return Counter(session.scalars(select(CustomerEmail.state)))


def _create(waves: WaveClient, number: int = 1) -> list[str]:
    made = [
        ImportedAccount.create(waves.supplier, waves.batches.resources, customers=[_JANSEN])
        for _ in range(number)
    ]
    return [it.number for it in made]


def test_those_whose_moment_went_by_while_none_were_sent_are_released_with_the_policy(
    waves: WaveClient,
) -> None:
    supplier, go_lives = waves.supplier, GoLiveClient(waves.supplier)
    for payload in supplier.accounts(2):
        supplier.stage(payload | {"customers": [_JANSEN]})
    _set(supplier)
    plan = waves.plan({"rest": True})
    waves.act(plan, 1, "start")
    waves.run()
    live = _create(waves)
    _change(supplier, on=False)
    assert waves.act(plan, 1, "approve", reason="Good.").status_code == 200
    assert go_lives.run(external_account_numbers=live)["emails"] == 0
    assert _states(supplier) == {"HELD": 3}
    assert (_change(supplier), _states(supplier)) == (1, {"HELD": 2, "PENDING": 1}), "it has gone live"
    assert (_change(supplier, EmailMoment.AT_APPROVAL), _states(supplier)) == (2, {"PENDING": 3})
    assert _change(supplier, EmailMoment.AT_GO_LIVE) == 0


def test_an_account_that_is_created_while_its_supplier_goes_live_is_told(waves: WaveClient) -> None:
    """In every order: its e-mail is released by the go-live, or recorded as one that waits for nothing."""

    def script() -> Script:
        supplier = SupplierClient.create(waves.supplier.app, waves.supplier.Session)
        _set(supplier)
        (payload,) = supplier.accounts()
        supplier.stage(payload | {"customers": [_JANSEN]})
        supplier.process(number := str(payload["external_account_number"]))
        attempt_id = supplier.current_attempt(number)
        yield {
            "create": [("run", lambda it: run_attempt(OpenTransaction.of(it), attempt_id)), COMMIT],
            "live": [("set", lambda it: set_live(it, supplier.code)), COMMIT],
        }
        go_lives = GoLiveClient(supplier)
        planned = json_of(supplier.get("/go-lives/"))[0]
        go_lives.work(planned["go_live_id"])
        with supplier.Session() as session:
            assert count_held(session, supplier.known().id) == 0
        assert go_lives.get(planned["go_live_id"])["state"] == "COMPLETED"

    assert explore(waves.supplier.Session, script) >= 3
