"""The work for a body is bounded. Each bound has its own code, and the work grows linearly."""

import gc
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from migration_payloads.profile import Profile
from migration_payloads.schemas.account import ACCOUNT_IMPORT, load_account
from migration_payloads.schemas.base import find_unknown_fields, load, suggest
from migration_payloads.schemas.bounds import MAX_ERRORS, MAX_ITEMS, MAX_NUMBER_DIGITS
from migration_payloads.schemas.json import encode_json, parse_json
from migration_payloads.validation import validate_account
from migration_service.errors import ErrorItem, ParseError
from migration_service.schemas.added_data import NotesRequestSchema
from migration_service.schemas.requests import ProcessRequestSchema


def _account(**members: Any) -> dict[str, Any]:
    return {"external_account_number": "1", "import_supplier": "S", "unknown_occupier": True, **members}


def _codes(errors: list[ErrorItem]) -> set[str]:
    return {error.code for error in errors}


def test_a_whole_number_of_too_many_digits_is_refused_by_every_field() -> None:
    long = 10**MAX_NUMBER_DIGITS
    statement = {"gross_amount": long, "statement_pdf_context": {"a": [{"b": -long}]}}
    errors = load_account(_account(statements=[statement])).errors
    assert {"number_too_long", "out_of_range"} <= _codes(errors)


def test_a_list_with_too_many_items_is_one_error() -> None:
    for name in ("customers", "ledgers", "statements", "supply_addresses"):
        errors = load_account(_account(**{name: [{}] * (MAX_ITEMS + 1)})).errors
        assert [(error.code, error.attr) for error in errors] == [("too_many_items", name)]
    errors = load_account(_account(ledgers=[{"identifiers": ["1"] * (MAX_ITEMS + 1)}])).errors
    assert "too_many_items" in _codes(errors)


def test_at_most_a_thousand_errors_are_listed_and_one_that_says_that_there_are_more() -> None:
    errors = load_account(_account(statements=[{}] * MAX_ITEMS)).errors
    assert len(errors) == MAX_ERRORS + 1
    assert errors[-1].code == "too_many_errors"
    assert _codes(errors[:-1]) == {"required"}


def test_exactly_a_thousand_errors_are_all_listed() -> None:
    errors = load_account(_account(ledgers=[{}] * (MAX_ERRORS // 2))).errors
    assert len(errors) == MAX_ERRORS
    assert _codes(errors) == {"required"}


def test_findings_of_the_rules_are_bounded_too() -> None:
    account = validate_account(_account(customers=[{"family_name": ""}] * MAX_ITEMS), Profile.STRICT)
    assert len(account.errors) == MAX_ERRORS + 1
    warned = validate_account(_account(supply_addresses=[{}] * MAX_ITEMS), Profile.LENIENT)
    assert len(warned.warnings) == MAX_ERRORS + 1
    assert warned.warnings[-1].code == "too_many_errors"


def test_unknown_fields_are_bounded_and_named_safely() -> None:
    payload = _account(**{f"member{n}": n for n in range(5_000)})
    assert len(find_unknown_fields(ACCOUNT_IMPORT, payload)) == MAX_ERRORS + 1
    for number, found in ((MAX_ITEMS, 1), (MAX_ITEMS + 1, 0)):
        customers = [*[{}] * (number - 1), {"member": 1}]
        assert len(find_unknown_fields(ACCOUNT_IMPORT, _account(customers=customers))) == found
    items = find_unknown_fields(ACCOUNT_IMPORT, {f"ledgers{n}": n for n in range(12)})
    assert [" did you mean ledgers?" in item.detail for item in items] == [*[True] * 10, False, False]
    names = ["transactions.foo", "a\0b", 'a"b', "x" * 500, "\u202e"]
    items = find_unknown_fields(ACCOUNT_IMPORT, dict.fromkeys(names, 1))
    assert [item.attr for item in items] == [
        '"transactions.foo"',
        '"a\\u0000b"',
        '"a\\"b"',
        f'"{"x" * 80}"',
        '"\\u202e"',
    ]
    assert all(item.detail.isprintable() and len(item.detail) < 100 for item in items)


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("dryRun", "dry_run"),
        ("dry-run", "dry_run"),
        ("DRY_RUN", "dry_run"),
        ("colour", None),
        ("x" * 5_000, None),
    ],
)
def test_the_member_that_was_probably_meant_is_suggested(name: str, meant: str | None) -> None:
    assert suggest(name, ProcessRequestSchema().fields) == meant


def test_a_command_refuses_members_that_it_does_not_have() -> None:
    body = {
        "external_account_number": "1",
        "import_supplier_code": "S",
        "operations_team_name": "T",
        "dryRun": True,
    }
    _, [error] = load(ProcessRequestSchema(), body)
    assert (error.code, error.attr) == ("unknown_field", "dryRun")
    assert "did you mean dry_run?" in error.detail
    notes = {"import_supplier": "S", "external_account_number": "1", "notes": [{"body": "b", "colour": 1}]}
    assert load(NotesRequestSchema(), notes)[1] == []
    assert _codes(load(NotesRequestSchema(), {**notes, "dry_runn": True})[1]) == {"unknown_field"}


def _count_work(work: Callable[[], Any]) -> int:
    """Count the executed lines of Python and the calls of C functions, instead of measuring time."""
    count = 0

    def trace(_frame: Any, _event: str, _argument: Any) -> Any:
        nonlocal count
        count += 1
        return trace

    before = sys.gettrace()
    gc.disable()  # what other tests left would be cleared away here, and counted
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
        gc.enable()
    return count


def _try_parse(body: bytes) -> None:
    with pytest.raises(ParseError):
        parse_json(body)


def _repeated_key(size: int) -> bytes:
    members = ",".join(f'"{n}":0' for n in range(size))
    return f'{{{members},"{size - 1}":0}}'.encode()


def test_a_repeated_key_is_found_in_linear_work() -> None:
    small, large = (_repeated_key(size) for size in (2_000, 4_000))
    assert _count_work(lambda: _try_parse(large)) < 3 * _count_work(lambda: _try_parse(small))


def _transactions(size: int) -> list[dict[str, Any]]:
    charge = {
        "transaction_date": "2026-01-01",
        "amount": 1,
        "type": "SUPPLY_CHARGE",
        "line_items": [{"rate_band": "X", "net_amount": 1, "params": {"ref": "r"}}] * 2,
        "tax_items": [{"amount": 1, "tax_type": "VAT", "params": {"vat_on": "none"}}],
    }
    return [{**charge, "transaction_id": f"T{n % 7}"} for n in range(size)]


_DETAIL = {"namespace": "n", "value": "v"}
_POINT: dict[str, Any] = {"ean": "1", "supply_type": "GAS"}
_AGREEMENT = {"supply_type": "GAS", "effective_from": "2020-01-01", "tariff_code": "t"}
_METER = {"meter_id": "m", "registers": [{"register_id": "r"}] * 2}
_LEDGER = {"ledger_code": "E", "ledger_balance": 1}
_STATEMENT = {
    **{
        "bill_period_from_date": "2020-01-01",
        "bill_period_to_date": "2020-01-31",
        "issued_date": "2020-02-01",
    },
    **{"statement_id": "S", "number": "N", "gross_amount": 1},
}
#: The only member of an account that has some items, by what they are.
LONG_LISTS: dict[str, Callable[[int], dict[str, Any]]] = {
    "customers": lambda size: {"customers": [{"family_name": "J", "user_details": [_DETAIL] * 3}] * size},
    "user_details": lambda size: {"customers": [{"family_name": "J", "user_details": [_DETAIL] * size}]},
    "supply_addresses": lambda size: {"supply_addresses": [{"supply_address1": "a"}] * size},
    "meter_points": lambda size: _with_points([_POINT | {"meters": [{}]}] * size),
    "agreements": lambda size: _with_points(
        [
            _POINT
            | {"agreements": [_AGREEMENT] * size, "meters": [_METER] * size}
            | {"billing_configuration_periods": [{"start_date": "2020-01-01"}] * size}
        ]
    ),
    "transactions": lambda size: {
        "ledgers": [
            _LEDGER
            | {"identifiers": ["1"] * size, "transactions_in_open_settlement_period": _transactions(size)}
        ]
    },
    "ledgers": lambda size: {"ledgers": [_LEDGER] * size},
    "statements": lambda size: {"statements": [_STATEMENT] * size},
    "faults": lambda size: {"statements": [{"number": 1}] * size},
}


def _with_points(points: list[dict[str, Any]]) -> dict[str, Any]:
    return {"supply_addresses": [{"meter_points": points}]}


@pytest.mark.parametrize("name", LONG_LISTS)
def test_the_work_grows_linearly_with_a_list(name: str) -> None:
    small, large = (parse_json(encode_json(_account(**LONG_LISTS[name](size)))) for size in (100, 200))
    costs = [_count_work(partial(validate_account, it, Profile.STRICT)) for it in (small, large)]
    assert costs[1] < 3 * costs[0]
