"""What is doubtful about added data is counted in a header, and listed in the full report.

`tests/worker/batches/test_added_data.py` compares it with what a batch finds.
"""

from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from werkzeug.test import TestResponse

from migration_payloads.schemas.coded import example_of
from migration_service.schemas import added_data
from migration_service.services.setup.suppliers import set_time_zone
from support.factories import json_of
from support.imported_account import ImportedAccount, codes_of

_PAYMENT = {
    "transaction_id": "T-1",
    "transaction_date": "2026-01-10",
    "amount": "10.00",
    "type": "PAYMENT",
    "reference": "",
    "payment_type": "DIRECT_CREDIT",
}
_STATEMENT = example_of(added_data.StatementsRequestSchema)["statements"][0]


def _add(account: ImportedAccount, path: str, query: str = "", **body: Any) -> TestResponse:
    return account.supplier.post(f"/{path}/create/{query}", account.pair | body)


def _warnings(answer: TestResponse) -> list[tuple[str, str]]:
    """Return the path and the code of each warning of a full report."""
    assert answer.status_code == 201, answer.text
    report = json_of(answer)
    assert report.keys() == {"valid", "errors", "warnings", "result"}
    assert (report["valid"], report["errors"]) == (True, [])
    assert answer.headers["X-Warning-Count"] == str(len(report["warnings"]))
    return [(it["attr"], it["code"]) for it in report["warnings"]]


def _find_warnings(account: ImportedAccount, path: str, **body: Any) -> list[tuple[str, str]]:
    return _warnings(_add(account, path, "?report=full", **body))


@pytest.mark.parametrize(
    ("path", "items", "unknown"),
    [
        ("notes", {"notes": [{"body": "a", "isPinned": True}]}, "notes.0.isPinned"),
        (
            "notes",
            {"notes": [{"document_paths": [{"document_path": "a", "title": "A"}]}]},
            "notes.0.document_paths.0.title",
        ),
        ("transactions", {"transactions": [_PAYMENT | {"paymentType": "X"}]}, "transactions.0.paymentType"),
        (
            "historical-statements",
            {"statements": [_STATEMENT | {"statement_pdf_context": {}}]},
            "statements.0.statement_pdf_context",
        ),
    ],
)
def test_an_unknown_field_within_an_item_is_a_warning_and_the_usual_body_stays(
    account: ImportedAccount, path: str, items: dict[str, Any], unknown: str
) -> None:
    dry = _add(account, path, **items, dry_run=True)
    assert (dry.status_code, dry.headers["X-Warning-Count"]) == (200, "1")
    full = _add(account, path, "?report=full", **items)
    assert _warnings(full) == [(unknown, "unknown_field")]
    if path != "notes":  # the entry of a note has the time of the request
        assert json_of(full)["result"] == json_of(dry)


def test_a_repeated_request_with_a_key_has_the_number_of_warnings_again(account: ImportedAccount) -> None:
    body = account.pair | {"notes": [{"body": "a", "isPinned": True}]}
    answers = [
        account.supplier.post("/notes/create/", body, headers={"Idempotency-Key": "k"}) for _ in range(2)
    ]
    assert [it.headers["X-Warning-Count"] for it in answers] == ["1", "1"]


def test_a_changed_date_is_a_warning_with_both_dates_and_an_error_for_nobody(
    account: ImportedAccount, strict_account: ImportedAccount
) -> None:
    old = _PAYMENT | {"transaction_date": "2001-01-10"}
    for one in (account, strict_account):
        answer = _add(
            one, "transactions", "?report=full", transactions=[old | {"transaction_id": "T-0"}, old]
        )
        changed = "transaction_date_changed"
        assert _warnings(answer) == [(f"transactions.{i}.transaction_date", changed) for i in (0, 1)]
        [warning, _] = json_of(answer)["warnings"]
        assert "from 2001-01-10 to 2020-02-01" in warning["detail"]


@pytest.mark.parametrize(
    ("changes", "attr", "code"),
    [
        ({"issued_date": "2131-01-01"}, "issued_date", "statement_issued_in_future"),
        ({"gross_amount": "123.45"}, "gross_amount", "gross_amount_not_in_cents"),
        ({"number": "INV-OLD"}, "number", "duplicate_statement_numbers"),
    ],
)
def test_a_statement_is_as_plausible_as_one_of_a_payload(
    account: ImportedAccount, strict_account: ImportedAccount, changes: dict[str, str], attr: str, code: str
) -> None:
    """The account has what the invoice was charged, and another statement with a number of its own."""
    charged = _PAYMENT | {
        **{"type": "CHARGE", "amount": "98.00", "reason": "IMPORTED_CHARGE"},
        "associated_invoice_number": _STATEMENT["number"],
    }
    del charged["payment_type"]
    for one in (account, strict_account):
        assert _find_warnings(one, "transactions", transactions=[charged]) == []
        old = _STATEMENT | {"statement_id": "S-OLD", "number": "INV-OLD"}
        assert _find_warnings(one, "historical-statements", statements=[old]) == []
    sound, doubtful = _STATEMENT | {"gross_amount": 9_800}, _STATEMENT | {"gross_amount": 9_800} | changes
    assert _find_warnings(account, "historical-statements", statements=[doubtful]) == [
        (f"statements.0.{attr}", code)
    ]
    refused = _add(strict_account, "historical-statements", statements=[doubtful])
    assert (refused.status_code, codes_of(refused)) == (400, [(f"statements.0.{attr}", code)])
    assert _find_warnings(strict_account, "historical-statements", statements=[sound]) == []


def test_two_statements_of_a_request_have_two_numbers_but_the_same_one_may_be_sent_again(
    account: ImportedAccount,
) -> None:
    other = _STATEMENT | {"statement_id": "S-2"}
    found = _find_warnings(account, "historical-statements", statements=[_STATEMENT, _STATEMENT, other])
    assert found == [("statements.2.number", "duplicate_statement_numbers")]


@pytest.mark.parametrize(("time_zone", "is_future"), [("Pacific/Kiritimati", False), ("Etc/GMT+12", True)])
def test_today_is_today_in_the_time_zone_of_the_supplier(
    account: ImportedAccount, time_zone: str, is_future: bool
) -> None:
    """In the first of these zones it is always a later day than in the second."""
    with account.supplier.Session.begin() as session:
        set_time_zone(session, account.supplier.code, time_zone)
    today = str(datetime.now(ZoneInfo("Pacific/Kiritimati")).date())
    payment = _PAYMENT | {"transaction_date": today}
    moved = _find_warnings(account, "transactions", transactions=[payment])
    assert [code for _, code in moved] == ["transaction_date_changed"] * is_future
    added = _find_warnings(account, "historical-statements", statements=[_STATEMENT | {"issued_date": today}])
    assert [code for _, code in added] == ["statement_issued_in_future"] * is_future
    (payload,) = account.supplier.accounts()
    payload["supply_addresses"][0]["meter_points"][0]["last_billed_to_date"] = today
    report = json_of(account.supplier.post("/validate-account/?report=full", payload))
    found = [it["code"] for it in report["warnings"]]
    assert ("last_billed_to_date_in_future" in found) is is_future
