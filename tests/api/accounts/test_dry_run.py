"""A dry run of added data does everything, keeps nothing, and answers 200 with the body of a 201."""

from typing import Any

import pytest

from migration_service.schemas.json import parse_json
from support.imported_account import ImportedAccount, codes_of

_NOTE = {"body": "a", "created_at": "2025-11-03T09:30:00Z"}
_TRANSACTION = {
    "transaction_id": "T-1",
    "transaction_date": "2019-01-01",  # outside the open period, so it is moved and a note is pinned
    "amount": "25.00",
    "type": "PAYMENT",
    "payment_type": "DIRECT_CREDIT",
}
_STATEMENT = {
    "bill_period_from_date": "2024-01-01",
    "bill_period_to_date": "2024-12-31",
    "statement_id": "S-2024",
    "issued_date": "2025-01-15",
    "number": "INV-2024",
    "gross_amount": 154020,
}
_ADDITIONS: list[tuple[str, str, dict[str, Any]]] = [
    ("/notes/create/", "notes", _NOTE),
    ("/transactions/create/", "transactions", _TRANSACTION),
    ("/historical-statements/create/", "statements", _STATEMENT),
]


@pytest.mark.parametrize(("path", "name", "item"), _ADDITIONS)
def test_a_dry_run_answers_as_the_real_request_and_changes_nothing(
    account: ImportedAccount, path: str, name: str, item: dict[str, Any]
) -> None:
    before = account.read()
    body = {**account.pair, name: [item, item]}
    rehearsed = account.supplier.post(path, {**body, "dry_run": True})
    assert rehearsed.status_code == 200
    assert account.read() == before
    done = account.supplier.post(path, {**body, "dry_run": "false"})
    assert done.status_code == 201
    assert parse_json(done.data) == parse_json(rehearsed.data)
    assert account.read() != before


@pytest.mark.parametrize(("path", "name", "item"), _ADDITIONS)
def test_a_dry_run_is_refused_with_the_errors_of_the_real_request(
    account: ImportedAccount, path: str, name: str, item: dict[str, Any]
) -> None:
    body = {**account.pair, name: [item, 7]}
    rehearsed = account.supplier.post(path, {**body, "dry_run": True})
    done = account.supplier.post(path, body)
    assert (rehearsed.status_code, rehearsed.json) == (400, done.json)
    assert codes_of(done) == [(f"{name}.1", "not_a_dict")]


@pytest.mark.parametrize(("path", "name", "item"), _ADDITIONS)
def test_a_dry_run_that_is_neither_true_nor_false_adds_nothing(
    account: ImportedAccount, path: str, name: str, item: dict[str, Any]
) -> None:
    before = account.read()
    answer = account.supplier.post(path, {**account.pair, name: [item], "dry_run": "perhaps"})
    assert codes_of(answer) == [("dry_run", "invalid")]
    assert account.read() == before
