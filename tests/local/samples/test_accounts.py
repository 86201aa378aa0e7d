"""Sample accounts keep every rule of the strict profile, and have the variety of a real book."""

import re
from collections.abc import Callable, Iterator
from datetime import date
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from migration_payloads.profile import Profile
from migration_payloads.rules.catalogue import check_account
from migration_payloads.schemas.account import ACCOUNT_IMPORT
from migration_payloads.schemas.base import load
from migration_payloads.schemas.json import encode_json, parse_json
from migration_service_local.samples import generate_accounts

Account = dict[str, Any]
TODAY = date(2026, 3, 15)


@pytest.fixture(scope="module")
def book() -> list[Account]:
    return list(generate_accounts(3_000, supplier="NORTHSTAR", today=TODAY))


def assert_sound(account: Account, today: date) -> None:
    data, errors = load(ACCOUNT_IMPORT, parse_json(encode_json(account)))
    assert errors == []
    assert list(check_account(data, profile=Profile.STRICT, today=today)) == []


def meter_points(account: Account) -> Iterator[dict[str, Any]]:
    for address in account["supply_addresses"]:
        yield from address["meter_points"]


def transactions(account: Account) -> Iterator[dict[str, Any]]:
    for ledger in account["ledgers"]:
        yield from ledger["historical_statement_transactions"]
        yield from ledger.get("transactions_in_open_settlement_period", [])


def test_every_account_keeps_all_rules(book: list[Account]) -> None:
    for account in book[::4]:
        assert_sound(account, TODAY)


@settings(max_examples=300)
@given(
    seed=st.integers(0, 2**40),
    first=st.integers(0, 10**9),
    today=st.dates(date(2000, 1, 1), date(2199, 12, 31))
    | st.sampled_from([date(2026, 1, 1), date(2024, 2, 29), date(2025, 12, 31)]),
)
def test_every_account_of_any_seed_on_any_day_keeps_all_rules(seed: int, first: int, today: date) -> None:
    for account in generate_accounts(1, supplier="NORTHSTAR", seed=seed, first=first, today=today):
        assert_sound(account, today)


def test_nobody_is_reached_by_an_address_of_a_sample(book: list[Account]) -> None:
    for account in book:
        for customer in account.get("customers", []):
            assert re.fullmatch(r"[a-z]+\.[a-z]+\d+@[a-z]+\.example", customer["email"])


def test_optional_fields_are_left_out_rather_than_null(book: list[Account]) -> None:
    def look(value: Any, key: str = "") -> None:
        assert value is not None or key == "end_at"
        below = value.items() if isinstance(value, dict) else ()
        for name, item in [(key, it) for it in value] if isinstance(value, list) else below:
            look(item, name)

    look(book)


def test_statements_have_the_sum_of_their_supply_charges(book: list[Account]) -> None:
    for account in book:
        billed: dict[str, Decimal] = {}
        for item in transactions(account):
            if item["type"] == "SUPPLY_CHARGE":
                number = item["associated_invoice_number"]
                billed[number] = billed.get(number, Decimal(0)) + Decimal(str(item["amount"]))
        assert billed == {it["number"]: Decimal(it["gross_amount"]) / 100 for it in account["statements"]}


def test_meter_readings_go_on_where_they_were(book: list[Account]) -> None:
    for account in book:
        kinds = [point["supply_type"] for point in meter_points(account)]
        if len(set(kinds)) < len(kinds):
            continue  # with several meters of one supply type it is unknown to which a reading belongs
        seen: dict[tuple[str, int], float] = {}
        for charge in transactions(account):
            readings = [line["units"] for line in charge.get("line_items", []) if "units" in line]
            for place, (start, end) in enumerate(readings):
                key = (charge["supply_type"], place)
                assert seen.get(key, start) == start
                seen[key] = end


def test_eans_and_numbers_are_unique_in_a_book(book: list[Account]) -> None:
    numbers = [account["external_account_number"] for account in book]
    eans = [ean for account in book for ean in {point["ean"] for point in meter_points(account)}]
    assert len(set(numbers)) == len(book)
    assert len(set(eans)) == len(eans)


def _months_of_history(account: Account) -> int:
    starts = [date.fromisoformat(item["bill_period_from_date"]) for item in account["statements"]]
    ends = [date.fromisoformat(item["bill_period_to_date"]) for item in account["statements"]]
    return (max(ends).year - min(starts).year) * 12 + max(ends).month - min(starts).month + 1


def _has_type(kind: str) -> Callable[[Account], bool]:
    return lambda account: any(item["type"] == kind for item in transactions(account))


def _any_point(holds: Callable[[dict[str, Any]], bool]) -> Callable[[Account], bool]:
    return lambda account: any(holds(point) for point in meter_points(account))


def _registers(point: dict[str, Any]) -> list[dict[str, Any]]:
    return [register for meter in point["meters"] for register in meter["registers"]]


def _has_foreign_number(account: Account) -> bool:
    numbers = [customer["mobile"] for customer in account.get("customers", [])]
    return any(number.startswith("+") and not number.startswith("+31") for number in numbers)


def _has_one_ean_for_both(account: Account) -> bool:
    eans = [point["ean"] for point in meter_points(account)]
    return len(set(eans)) < len(eans)


def _is_of_a_business(point: dict[str, Any]) -> bool:
    return bool(point["billing_configuration_periods"][-1]["energy_tax_exception"] == "BUSINESS")


def _has_vat_for_each_line(account: Account) -> bool:
    return any("params" in tax for item in transactions(account) for tax in item.get("tax_items", []))


VARIETY: list[tuple[str, Callable[[Account], bool], float, float]] = [
    ("electricity only", lambda a: all(p["supply_type"] == "ELECTRICITY" for p in meter_points(a)), 0.3, 0.5),
    ("both fuels", _any_point(lambda p: p["supply_type"] == "GAS"), 0.5, 0.7),
    ("solar", _any_point(lambda p: _registers(p)[-1]["register_id"].startswith("2.8.")), 0.15, 0.25),
    ("night registers", _any_point(lambda p: _registers(p)[0].get("time_of_use") == "OFF_PEAK"), 0.4, 0.7),
    ("two customers", lambda a: len(a.get("customers", [])) == 2, 0.2, 0.35),
    ("three customers", lambda a: len(a.get("customers", [])) == 3, 0.01, 0.1),
    ("unknown occupier", lambda a: a["unknown_occupier"] == "true", 0.01, 0.06),
    ("several addresses", lambda a: len(a["supply_addresses"]) > 1, 0.02, 0.08),
    ("several ledgers", lambda a: len(a["ledgers"]) > 1, 0.03, 0.12),
    ("one EAN for both fuels", _has_one_ean_for_both, 0.005, 0.05),
    ("non-smart meter", _any_point(lambda p: p["smart_meter_administrative_status"] == "OFF"), 0.05, 0.3),
    ("small business", _any_point(_is_of_a_business), 0.03, 0.1),
    ("foreign number", _has_foreign_number, 0.03, 0.2),
    ("one month", lambda a: _months_of_history(a) == 1, 0.1, 0.5),
    ("two years and more", lambda a: _months_of_history(a) >= 24, 0.01, 0.1),
    ("payments", _has_type("PAYMENT"), 0.7, 1.0),
    ("repayments", _has_type("REPAYMENT"), 0.05, 0.5),
    ("credits", _has_type("CREDIT"), 0.03, 0.3),
    ("charges", _has_type("CHARGE"), 0.03, 0.3),
    ("two agreements", _any_point(lambda p: len(p["agreements"]) > 1), 0.02, 0.2),
    ("two billing periods", _any_point(lambda p: len(p["billing_configuration_periods"]) > 1), 0.02, 0.2),
    ("VAT for each line item", _has_vat_for_each_line, 0.1, 0.3),
    ("empty address line", lambda a: a["billing_address3"] == "", 0.9, 1.0),
]  # fmt: skip


def test_the_book_has_its_share_of_each_kind(book: list[Account]) -> None:
    for kind, holds, least, most in VARIETY:
        assert least <= sum(map(holds, book)) / len(book) <= most, kind


def test_histories_reach_from_1_to_36_months(book: list[Account]) -> None:
    months = {_months_of_history(account) for account in book}
    assert min(months) == 1
    assert max(months) == 36
