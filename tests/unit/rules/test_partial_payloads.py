"""Rules get the parts of a payload that the schema loaded. They never raise, and ignore missing values."""

from collections.abc import Iterator
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from migration_service.rules.catalogue import RULES, check_account
from migration_service.states import Profile
from unit.rules.valid_account import ABSENT, TODAY, change, make_valid_account

_CODES = {rule.code for rule in RULES}


def _walk(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[tuple[str | int, ...], Any]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, below in items:
        yield (*path, key), below
        yield from _walk(below, (*path, key))


_VALUES = dict(_walk(make_valid_account()))
_PATHS = sorted(_VALUES, key=repr)


def _set(account: Any, path: tuple[str | int, ...], value: Any) -> None:
    """Set a value, or delete a key. Ignore a place that an earlier change removed."""
    for part in path[:-1]:
        try:
            account = account[part]
        except (KeyError, IndexError):
            return
        if not isinstance(account, dict | list):
            return
    if isinstance(account, list):
        index = path[-1]
        if isinstance(index, int) and index < len(account):
            account[index] = {} if value is ABSENT else value
    elif value is ABSENT:
        account.pop(path[-1], None)
    else:
        account[path[-1]] = value


def _check_every_promise(account: dict[str, Any]) -> None:
    lenient = check_account(account, profile=Profile.LENIENT, today=TODAY)
    strict = check_account(account, profile=Profile.STRICT, today=TODAY)
    places = [(finding.path, finding.code) for finding in lenient]
    assert places == sorted(places) == [(finding.path, finding.code) for finding in strict]
    assert {finding.code for finding in lenient} <= _CODES


@given(st.lists(st.sampled_from(_PATHS), min_size=1, max_size=40))
def test_rules_never_raise_if_keys_are_missing(paths: list[tuple[str | int, ...]]) -> None:
    account = make_valid_account()
    for path in paths:
        _set(account, path, ABSENT)
    _check_every_promise(account)


def test_rules_never_raise_if_any_single_key_is_missing() -> None:
    for path in _PATHS:
        account = make_valid_account()
        _set(account, path, ABSENT)
        _check_every_promise(account)


_OTHERS: dict[type, st.SearchStrategy[Any]] = {
    str: st.text(max_size=50),
    bool: st.booleans(),
    int: st.integers(),
    Decimal: st.decimals(allow_nan=False, allow_infinity=False),
    date: st.dates(),
    datetime: st.datetimes(),
    list: st.just([]),
    dict: st.just({}),
}


@given(st.data())
def test_rules_never_raise_on_other_values_of_the_same_kind(data: st.DataObject) -> None:
    account = make_valid_account()
    for path in data.draw(st.lists(st.sampled_from(_PATHS), min_size=1, max_size=20)):
        value = _VALUES[path]
        _set(account, path, ABSENT if value is None else data.draw(_OTHERS[type(value)]))
    _check_every_promise(account)


def test_an_empty_account_lacks_only_the_required_fields() -> None:
    findings = check_account({}, profile=Profile.LENIENT, today=TODAY)
    assert [(finding.attr, finding.code) for finding in findings] == [
        ("billing_address1", "billing_address_not_provided"),
        ("billing_postcode", "billing_address_not_provided"),
        ("customers", "customer_required"),
        ("ledgers", "ledger_missing"),
        ("supply_addresses", "meter_point_missing"),
    ]


_POWER = "supply_addresses.0.meter_points.0"
_HISTORICAL = "ledgers.0.historical_statement_transactions"


@pytest.mark.parametrize(
    "changes",
    [
        {f"{_HISTORICAL}.0.amount": ABSENT, "ledgers.0.last_settlement_balance": Decimal(99)},
        {f"{_HISTORICAL}.0.type": ABSENT, f"{_HISTORICAL}.0.line_items.0.net_amount": ABSENT},
        {f"{_HISTORICAL}.0.line_items.0.net_amount": ABSENT, f"{_HISTORICAL}.0.amount": Decimal("172.62")},
        {f"{_HISTORICAL}.0.tax_items.0.amount": ABSENT},
        {f"{_POWER}.ean": ABSENT},
        {f"{_POWER}.billing_configuration_periods.1.start_date": ABSENT},
        {"statements.0.number": ABSENT},
        {"ledgers.0.identifiers.0": {}},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_no_rule_judges_a_value_that_the_schema_refused(changes: dict[str, Any]) -> None:
    """Sums, references and sequences are not checked if a part of them is missing."""
    changes = {**changes, "ledgers.0.ledger_balance": ABSENT}
    assert check_account(change(make_valid_account(), changes), profile=Profile.STRICT, today=TODAY) == []
