"""Notes, transactions and statements alike: once, however often at once, and by the day of the supplier."""

from dataclasses import replace
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from migration_payloads.schemas.coded import example_of
from migration_service.schemas import added_data
from migration_service.services.setup.suppliers import set_time_zone
from support.factories import json_of
from support.imported_account import ImportedAccount, at_once

_NOTE = {"body": "a", "created_at": "2025-11-03T09:30:00Z"}
_TRANSACTION = {
    "transaction_id": "T-1",
    "transaction_date": "2019-01-01",  # outside the open period, so it is moved and a note is pinned
    "amount": "25.00",
    "type": "PAYMENT",
    "payment_type": "DIRECT_CREDIT",
}
_STATEMENT = example_of(added_data.StatementsRequestSchema)["statements"][0]

each_kind = pytest.mark.parametrize(
    ("path", "name", "item"),
    [
        pytest.param("/notes/create/", "notes", _NOTE, id="notes"),
        pytest.param("/transactions/create/", "transactions", _TRANSACTION, id="transactions"),
        pytest.param("/historical-statements/create/", "statements", _STATEMENT, id="statements"),
    ],
)


@each_kind
def test_the_same_twice_in_simultaneous_requests_is_added_once(
    account: ImportedAccount, path: str, name: str, item: dict[str, Any]
) -> None:
    body = {**account.pair, name: [item, item]}
    answers = at_once(lambda: account.supplier.post(path, body), times=6)
    assert {answer.status_code for answer in answers} == {201}
    # A note that explains a transaction does not count.
    added = account.ledger() if name == "transactions" else account.read()
    assert len(added[f"added_{name}"]) == 1
    assert str(account.balance()) == ("35.00" if name == "transactions" else "10.00")


def _codes(account: ImportedAccount, path: str, body: dict[str, Any]) -> list[str]:
    """Send it, and return the codes of its warnings."""
    report = json_of(account.supplier.post(f"{path}?report=full", account.pair | body))
    return [it["code"] for it in report["warnings"]]


@pytest.mark.parametrize(("time_zone", "is_future"), [("Pacific/Kiritimati", False), ("Etc/GMT+12", True)])
def test_today_is_today_in_the_time_zone_of_the_supplier(
    account: ImportedAccount, time_zone: str, is_future: bool
) -> None:
    """In the first of these zones it is always a later day than in the second."""
    with account.supplier.Session.begin() as session:
        set_time_zone(session, account.supplier.code, time_zone)
    today = str(datetime.now(ZoneInfo("Pacific/Kiritimati")).date())
    moved = _codes(
        account, "/transactions/create/", {"transactions": [_TRANSACTION | {"transaction_date": today}]}
    )
    assert moved == ["transaction_date_changed"] * is_future
    statement = _STATEMENT | {"issued_date": today}
    added = _codes(account, "/historical-statements/create/", {"statements": [statement]})
    assert added == ["statement_issued_in_future"] * is_future
    (payload,) = account.supplier.accounts()
    payload["supply_addresses"][0]["meter_points"][0]["last_billed_to_date"] = today
    found = _codes(replace(account, number=payload["external_account_number"]), "/validate-account/", payload)
    assert ("last_billed_to_date_in_future" in found) is is_future
