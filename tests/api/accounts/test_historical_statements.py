"""Section 4.10, and the balances after section 4.9."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from migration_service.tasks.resources import WorkerResources
from support.examples import TIMES
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
    "change", [{"gross_amount": 154021}, {"number": "INV-9"}, {"statement_path": "elsewhere.pdf"}]
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


_START = Decimal("10.00")
_SIGNS = {"PAYMENT": 1, "CREDIT": 1, "CHARGE": -1, "SUPPLY_CHARGE": -1, "REPAYMENT": -1}
_amounts = st.decimals(Decimal(-100_000), Decimal(100_000), places=4) | st.sampled_from([Decimal("0.1")] * 3)
_transactions = st.fixed_dictionaries(
    {
        # There are few of each, so that ids are repeated with the same and with other amounts.
        "transaction_id": st.sampled_from([f"T-{number}" for number in range(6)]),
        "transaction_date": st.integers(-5_000, 500).map(
            lambda days: str(datetime.now(UTC).date() + timedelta(days=days))
        ),
        "amount": _amounts.map(str),
        "type": st.sampled_from(list(_SIGNS)),
    }
)
_flags = st.sampled_from(["true", "true", "false"])
_requests = st.lists(
    st.tuples(
        st.lists(_transactions, min_size=1, max_size=4),
        st.fixed_dictionaries({"check_previously_added": _flags, "force_add_to_current_statement": _flags}),
        st.booleans(),
    ),
    min_size=1,
    max_size=6,
)


def _post(account: ImportedAccount, request: Any, sent_before: list[dict[str, Any]]) -> bool:
    transactions, arguments, repeat = request
    posted = [*transactions, *sent_before[:2]] if repeat else transactions
    answer = account.post_transactions(*posted, **arguments)
    assert answer.status_code in (201, 400), answer.text
    if answer.status_code == 201:
        sent_before += transactions
        assert len(answer.json["results"]) == len(posted)  # type: ignore[index]
    return answer.status_code == 201


def _signed(transaction: dict[str, Any]) -> Decimal:
    return _SIGNS[transaction["type"]] * Decimal(transaction["amount"])


@settings(max_examples=12 * TIMES, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(requests=_requests)
def test_the_balance_is_its_start_plus_the_signed_sum_and_nothing_is_added_twice(
    supplier: SupplierClient, worker_resources: WorkerResources, requests: list[Any]
) -> None:
    account = ImportedAccount.create(supplier, worker_resources)
    sent: list[dict[str, Any]] = []
    for request in requests:
        before = account.read()
        added = _post(account, request, sent)
        if not added:
            assert account.read() == before
        on_the_account = account.added_transactions()
        assert account.balance() == _START + sum(map(_signed, on_the_account))
        numbers = [transaction["transaction_id"] for transaction in on_the_account]
        assert len(numbers) == len(set(numbers))
        assert set(numbers) == {transaction["transaction_id"] for transaction in sent}
        first = {it["transaction_id"]: _signed(it) for it in reversed(sent)}
        assert {it["transaction_id"]: _signed(it) for it in on_the_account} == first
