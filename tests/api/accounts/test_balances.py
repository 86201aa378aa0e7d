"""The balances after section 4.9."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from migration_service.tasks.resources import WorkerResources
from support.examples import TIMES
from support.imported_account import ImportedAccount
from support.supplier_client import SupplierClient

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


def _signed(transaction: dict[str, Any]) -> Decimal:
    return _SIGNS[transaction["type"]] * Decimal(transaction["amount"])


@settings(max_examples=12 * TIMES, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(requests=_requests)
def test_the_balance_is_its_start_plus_the_signed_sum_and_nothing_is_added_twice(
    supplier: SupplierClient, worker_resources: WorkerResources, requests: list[Any]
) -> None:
    account = ImportedAccount.create(supplier, worker_resources)
    sent: list[dict[str, Any]] = []
    for transactions, arguments, repeat in requests:
        before = account.read()
        posted = [*transactions, *sent[:2]] if repeat else transactions
        answer = account.post_transactions(*posted, **arguments)
        if answer.status_code == 201:
            sent += transactions
            assert len(answer.json["results"]) == len(posted)  # type: ignore[index]
        else:
            assert answer.status_code == 400, answer.text
            assert account.read() == before
        on_the_account = account.added_transactions()
        assert account.balance() == _START + sum(map(_signed, on_the_account))
        numbers = [transaction["transaction_id"] for transaction in on_the_account]
        assert len(numbers) == len(set(numbers))
        assert set(numbers) == {transaction["transaction_id"] for transaction in sent}
        first = {it["transaction_id"]: _signed(it) for it in reversed(sent)}
        assert {it["transaction_id"]: _signed(it) for it in on_the_account} == first


def test_more_than_a_thousand_transactions_are_added_in_one_request(account: ImportedAccount) -> None:
    """SQLAlchemy inserts a thousand in a statement."""
    one = {"transaction_date": "2025-03-01", "amount": 1, "type": "PAYMENT"}
    many = [one | {"transaction_id": f"T-{number}"} for number in range(1_100)]
    for _ in range(2):
        assert account.post_transactions(*many).status_code == 201
        assert (account.balance(), len(account.added_transactions())) == (Decimal("1110.00"), 1_100)
