"""Sample accounts keep every rule, and have the variety of a real book."""

from collections.abc import Callable
from datetime import date
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from local.samples.sample_checks import CHECKS, Account, Check, check_account, meter_points, transactions
from migration_service_local.samples import generate_accounts

TODAY = date(2026, 3, 15)


@pytest.fixture(scope="module")
def book() -> list[Account]:
    return list(generate_accounts(3_000, supplier="NORTHSTAR", today=TODAY))


@pytest.mark.parametrize("check", CHECKS, ids=[check.__name__ for check in CHECKS])
def test_every_account_passes_the_check(check: Check, book: list[Account]) -> None:
    for account in book:
        check(account, TODAY)


def test_the_checks_are_found() -> None:
    assert len(CHECKS) >= 24


@settings(max_examples=300)
@given(
    seed=st.integers(0, 2**40),
    first=st.integers(0, 10**9),
    today=st.dates(date(2000, 1, 1), date(2199, 12, 31)),
)
def test_every_account_of_any_seed_on_any_day_keeps_all_rules(seed: int, first: int, today: date) -> None:
    for account in generate_accounts(1, supplier="NORTHSTAR", seed=seed, first=first, today=today):
        check_account(account, today)


@pytest.mark.parametrize("today", [date(2026, 1, 1), date(2024, 2, 29), date(2025, 12, 31)])
def test_accounts_on_the_first_and_last_days_of_months_keep_all_rules(today: date) -> None:
    for account in generate_accounts(200, supplier="NORTHSTAR", today=today):
        check_account(account, today)


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


@pytest.mark.parametrize(
    ("holds", "least", "most"), [case[1:] for case in VARIETY], ids=[c[0] for c in VARIETY]
)
def test_the_book_has_its_share_of_each_kind(
    holds: Callable[[Account], bool], least: float, most: float, book: list[Account]
) -> None:
    assert least <= sum(map(holds, book)) / len(book) <= most


def test_histories_reach_from_1_to_36_months(book: list[Account]) -> None:
    months = {_months_of_history(account) for account in book}
    assert min(months) == 1
    assert max(months) == 36
