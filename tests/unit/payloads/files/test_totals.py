"""Control totals: what a file adds up to, and what suppliers give."""

from decimal import Decimal
from typing import Any

import msgspec
import pytest

from migration_payloads.files.totals import add_up, list_measures
from migration_payloads.schemas.json import parse_json
from migration_service.errors import RequestFailedValidationError
from migration_service.schemas.control_totals import EXAMPLE, read_control_totals
from migration_service_local.samples import generate_accounts


def _account(*transactions: Any, balance: Any = "1.10", code: Any = "E", **others: Any) -> bytes:
    ledger = {
        "ledger_code": code,
        "ledger_balance": balance,
        "transactions_in_open_settlement_period": list(transactions[::2]),
        "historical_statement_transactions": list(transactions[1::2]),
    }
    return msgspec.json.encode({"ledgers": [ledger], **others})


def _paid(amount: Any, kind: Any = "PAYMENT") -> dict[str, Any]:
    return {"type": kind, "amount": amount, "line_items": [{"net_amount": 9}]}


def test_a_book_adds_up_to_what_its_accounts_have() -> None:
    accounts = list(generate_accounts(40, supplier="S"))
    expected: dict[str, Decimal] = {"accounts": Decimal(40), "statements": Decimal(0)}
    for account in accounts:
        expected["statements"] += len(account.get("statements", ()))
        for ledger in account.get("ledgers", ()):
            name = f"balance of {ledger['ledger_code']}"
            expected[name] = expected.get(name, Decimal(0)) + Decimal(str(ledger["ledger_balance"]))
            for period in ("transactions_in_open_settlement_period", "historical_statement_transactions"):
                for it in ledger.get(period, ()):
                    for name, value in (
                        (f"number of {it['type']}", 1),
                        (f"amount of {it['type']}", it["amount"]),
                    ):
                        expected[name] = expected.get(name, Decimal(0)) + Decimal(str(value))
    found = add_up(msgspec.json.encode(account) for account in accounts).to_dict()
    assert list_measures(found) == expected
    assert (found["unreadable_lines"], found["unreadable_amounts"]) == (0, 0)


_NO_AMOUNTS: list[Any] = [None, True, "", "seven", "NaN", "-sNaN", "Infinity", [], {}, "1e15", "1e-99"]


@pytest.mark.parametrize(
    ("balance", "expected"),
    [
        (0.1, "0.1"),
        ("-0.30", "-0.30"),
        (7, "7"),
        ("999999999999.9999999999", "999999999999.9999999999"),
        *((value, None) for value in _NO_AMOUNTS),
    ],
)
def test_an_amount_is_added_exactly_or_counted_as_unreadable(balance: Any, expected: str | None) -> None:
    found = add_up([_account(balance=balance)]).to_dict()
    assert found["ledger_balances"] == ({} if expected is None else {"E": expected})
    assert (found["unreadable_lines"], found["unreadable_amounts"]) == (0, int(expected is None))


def test_what_is_readable_of_a_faulty_line_counts() -> None:
    line = _account(
        _paid("2.50"), _paid("x"), _paid(1, "GIFT"), _paid(4, None), statements=[{}, 7], customers=3
    )
    found = add_up(
        [line, _account(_paid("0.25"), _paid(1)), _account(code=None), _account(code="\n")]
    ).to_dict()
    assert found == {
        "accounts": 4,
        "ledger_balances": {"E": "2.20"},
        "transactions": {"PAYMENT": {"count": 3, "sum": "3.75"}},
        "statements": 1,
        "unreadable_lines": 0,
        "unreadable_amounts": 6,
    }


@pytest.mark.parametrize(
    ("line", "unreadable"),
    [(b'{"ledgers": {"a": [1]}}', 1), (b'{"statements": 5}', 1), (b'{"ledgers": null}', 0)],
)
def test_what_replaces_a_list_is_counted_as_unreadable(line: bytes, unreadable: int) -> None:
    assert add_up([line]).unreadable_amounts == unreadable


@pytest.mark.parametrize(
    "line", [None, b"{", b"[]", b'"{}"', b'{"ledgers": [{"ledger_balance": NaN}]}', b"\xff"]
)
def test_a_line_that_cannot_be_read_counts_as_an_account(line: bytes | None) -> None:
    found = add_up([line]).to_dict()
    assert (found["accounts"], found["unreadable_lines"], found["unreadable_amounts"]) == (1, 1, 0)


def test_the_parts_of_a_file_add_up_to_the_whole() -> None:
    lines = [
        _account(_paid("1.5"), _paid("2", "CHARGE")),
        _account(code="F", statements=[{}]),
        b"{",
        _account(_paid("x")),
    ]
    whole, part = add_up(lines), add_up(lines[:1])
    part.add(add_up(lines[1:]))
    assert part == whole


def test_a_file_of_countless_ledger_codes_takes_little_room() -> None:
    found = add_up(_account(code=f"L{number}") for number in range(300)).to_dict()
    assert (len(found["ledger_balances"]), found["unreadable_amounts"]) == (100, 200)


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
