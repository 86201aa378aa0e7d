"""Control totals of suppliers: what is stored, and what is refused."""

from typing import Any

import pytest

from migration_payloads.schemas.json import parse_json
from migration_service.errors import RequestFailedValidationError
from migration_service.schemas.control_totals import EXAMPLE, read_control_totals


def test_amounts_are_stored_as_texts_with_all_their_digits() -> None:
    assert read_control_totals(EXAMPLE) == EXAMPLE
    given = parse_json(
        b'{"ledger_balances": {"A": -1.10, "B": "3"}, "transactions": {"CHARGE": {"count": 1, "sum": 0.0}}}'
    )
    assert read_control_totals(given) == {
        "ledger_balances": {"A": "-1.10", "B": "3"},
        "transactions": {"CHARGE": {"count": 1, "sum": "0.0"}},
    }


@pytest.mark.parametrize(
    ("given", "errors"),
    [
        ({}, [("required", None)]),
        ([], [("not_a_dict", None)]),
        ("12", [("not_a_dict", None)]),
        ({"accounts": -1}, [("out_of_range", "accounts")]),
        ({"accounts": 2**31}, [("out_of_range", "accounts")]),
        ({"accounts": True}, [("invalid", "accounts")]),
        ({"accounts": None}, [("null", "accounts")]),
        ({"accounts": 1, "acounts": 2}, [("unknown_field", "acounts")]),
        ({"statements": "many"}, [("invalid", "statements")]),
        ({"ledger_balances": [1]}, [("not_a_dict", "ledger_balances")]),
        ({"ledger_balances": {"A": "NaN"}}, [("invalid", "ledger_balances.A")]),
        ({"ledger_balances": {"A": 10**40}}, [("out_of_range", "ledger_balances.A")]),
        ({"ledger_balances": {"A\t": 1}}, [("invalid", "ledger_balances.A\t")]),
        (
            {"ledger_balances": dict.fromkeys(map(str, range(101)), 1)},
            [("too_many_items", "ledger_balances")],
        ),
        ({"transactions": {"GIFT": {}}}, [("unknown_field", "transactions.GIFT")]),
        ({"transactions": {"PAYMENT": {"count": 1}}}, [("required", "transactions.PAYMENT.sum")]),
        ({"transactions": {"PAYMENT": 1}}, [("not_a_dict", "transactions.PAYMENT")]),
    ],
)
def test_a_fault_is_refused_with_its_path(given: Any, errors: list[Any]) -> None:
    with pytest.raises(RequestFailedValidationError) as refused:
        read_control_totals(given)
    assert [(item.code, item.attr) for item in refused.value.errors] == errors
