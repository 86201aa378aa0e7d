"""Sections 2.7 and 4.10: historical statements are added to accounts that exist, each once."""

from typing import Any

import pytest

from migration_service.tasks.resources import WorkerResources
from support.imported_account import ImportedAccount, code_of, codes_of
from support.supplier_client import SupplierClient

STATEMENT: dict[str, Any] = {
    "bill_period_from_date": "2024-01-01",
    "bill_period_to_date": "2024-12-31",
    "statement_id": "S-2024",
    "issued_date": "2025-01-15",
    "number": "INV-2024",
    "gross_amount": 154020,
    "statement_path": "statements/2024.pdf",
}
OTHER = STATEMENT | {"statement_id": "S-2023", "number": "INV-2023"}


def _added(account: ImportedAccount) -> list[dict[str, Any]]:
    added: list[dict[str, Any]] = account.read().get("added_statements", [])
    return added


def test_documents_are_resolved_below_the_root_of_the_supplier(account: ImportedAccount) -> None:
    without = {name: value for name, value in OTHER.items() if name != "statement_path"}
    account.post_statements(STATEMENT, without)
    first, second = _added(account)
    assert first["statement_location"] == f"s3://bucket/{account.supplier.code}/statements/2024.pdf"
    assert "statement_location" not in second


def test_a_repeated_statement_is_accepted_and_changes_nothing(account: ImportedAccount) -> None:
    for statements in ([STATEMENT], [STATEMENT, OTHER], [OTHER | {"gross_amount": "154020.00"}]):
        assert account.post_statements(*statements).status_code == 201
    assert [statement["statement_id"] for statement in _added(account)] == ["S-2024", "S-2023"]


def test_a_statement_of_the_staged_payload_may_be_sent_again(
    supplier: SupplierClient, worker_resources: WorkerResources
) -> None:
    account = ImportedAccount.create(supplier, worker_resources, statements=[STATEMENT])
    assert account.post_statements(STATEMENT).status_code == 201
    assert account.post_statements(STATEMENT | {"number": "INV-1"}).status_code == 400
    assert _added(account) == []


@pytest.mark.parametrize(
    "change",
    [
        {"gross_amount": 154021},
        {"number": "INV-9"},
        {"statement_path": "elsewhere.pdf"},
    ],
)
def test_a_different_statement_with_a_known_id_is_an_error_and_none_is_added(
    account: ImportedAccount, change: dict[str, Any]
) -> None:
    account.post_statements(STATEMENT)
    for statements in ([OTHER, STATEMENT | change], [OTHER, OTHER | change]):
        answer = account.post_statements(*statements)
        assert answer.status_code == 400
        assert code_of(answer) == "historical_statement_already_exists"
        assert codes_of(answer) == [("statements.1.statement_id", "historical_statement_already_exists")]
    assert len(_added(account)) == 1


def test_a_faulty_statement_is_refused_with_its_path_and_none_is_added(account: ImportedAccount) -> None:
    answer = account.post_statements(STATEMENT | {"bill_period_to_date": "2023-12-31"}, OTHER)
    assert answer.status_code == 400
    assert codes_of(answer) == [("statements.0.bill_period_to_date", "start_date_later_than_end_date")]
    assert _added(account) == []
