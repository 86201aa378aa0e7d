"""Notes, transactions, statements and instructions alike: once, by a dry run, and with unknown fields."""

from typing import Any

import pytest

from migration_payloads.schemas.coded import example_of
from migration_payloads.schemas.json import parse_json
from migration_service.schemas import added_data
from migration_service.states import SupplierStatus
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
