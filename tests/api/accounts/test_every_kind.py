"""Notes, transactions, statements and instructions alike: once, by a dry run, and with warnings."""

from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from werkzeug.test import TestResponse

from migration_payloads.schemas.coded import example_of
from migration_payloads.schemas.json import parse_json
from migration_service.schemas import added_data
from migration_service.services.setup.suppliers import set_time_zone
from migration_service.states import SupplierStatus
from support.factories import json_of
from support.imported_account import ImportedAccount, at_once, codes_of

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


def _added(account: ImportedAccount, name: str) -> list[Any]:
    """What was added of a kind. A note that explains a transaction does not count."""
    if name == "transactions":
        return account.added_transactions()
    added: list[Any] = account.read().get(f"added_{name}", [])
    return added


@each_kind
def test_the_same_twice_in_simultaneous_requests_is_added_once(
    account: ImportedAccount, path: str, name: str, item: dict[str, Any]
) -> None:
    body = {**account.pair, name: [item, item]}
    answers = at_once(lambda: account.supplier.post(path, body), times=6)
    assert {answer.status_code for answer in answers} == {201}
    assert len(_added(account, name)) == 1
    assert str(account.balance()) == ("35.00" if name == "transactions" else "10.00")


@each_kind
@pytest.mark.parametrize("status", [SupplierStatus.PAUSED, SupplierStatus.COMPLETE])
def test_it_is_added_also_if_the_supplier_is_paused_or_complete(
    account: ImportedAccount, status: SupplierStatus, path: str, name: str, item: dict[str, Any]
) -> None:
    account.supplier.set_status(status)
    assert account.supplier.post(path, {**account.pair, name: [item]}).status_code == 201


@each_kind
def test_a_dry_run_answers_as_the_real_request_and_changes_nothing(
    account: ImportedAccount, path: str, name: str, item: dict[str, Any]
) -> None:
    before = account.read()
    body = {**account.pair, name: [item, item]}
    rehearsed = account.supplier.post(path, {**body, "dry_run": True})
    refused = account.supplier.post(path, {**body, "dry_run": "perhaps"})
    assert rehearsed.status_code == 200
    assert codes_of(refused) == [("dry_run", "invalid")]
    assert account.read() == before
    done = account.supplier.post(path, {**body, "dry_run": "false"})
    assert done.status_code == 201
    assert parse_json(done.data) == parse_json(rehearsed.data)
    assert account.read() != before


@each_kind
def test_a_dry_run_is_refused_with_the_errors_of_the_real_request(
    account: ImportedAccount, path: str, name: str, item: dict[str, Any]
) -> None:
    body = {**account.pair, name: [item, 7]}
    rehearsed = account.supplier.post(path, {**body, "dry_run": True})
    done = account.supplier.post(path, body)
    assert (rehearsed.status_code, rehearsed.json) == (400, done.json)
    assert codes_of(done) == [(f"{name}.1", "not_a_dict")]


@pytest.mark.parametrize(
    ("path", "example", "items"),
    [
        ("/notes/create/", example_of(added_data.NotesRequestSchema), "notes"),
        ("/transactions/create/", example_of(added_data.TransactionsRequestSchema), "transactions"),
        ("/historical-statements/create/", example_of(added_data.StatementsRequestSchema), "statements"),
        ("/payment-instruction/create/", example_of(added_data.PaymentInstructionRequestSchema), None),
    ],
)
def test_unknown_fields_are_errors_at_the_top_and_below_it_for_a_strict_supplier(
    account: ImportedAccount,
    strict_account: ImportedAccount,
    path: str,
    example: dict[str, Any],
    items: str | None,
) -> None:
    top = {**example, "surprise": 1, f"{items}.foo": 2}
    expected = [("surprise", "unknown_field"), (f'"{items}.foo"', "unknown_field")]
    for one in (account, strict_account):
        refused = one.supplier.post(path, top | one.pair)
        assert refused.status_code == 400
        assert codes_of(refused) == expected
    if items:
        body = {**example, items: [*example[items], {**example[items][0], "colour": "red"}]}
        strict = strict_account.supplier.post(path, body | strict_account.pair)
        assert strict.status_code == 400
        assert codes_of(strict) == [(f"{items}.{len(example[items])}.colour", "unknown_field")]
        assert account.supplier.post(path, body | account.pair).status_code == 201


_PAYMENT = {
    "transaction_id": "T-1",
    "transaction_date": "2026-01-10",
    "amount": "10.00",
    "type": "PAYMENT",
    "reference": "",
    "payment_type": "DIRECT_CREDIT",
}


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
