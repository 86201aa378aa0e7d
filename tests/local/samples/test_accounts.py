"""The sample accounts, books and faults."""

import gzip
import hashlib
import re
from collections.abc import Callable, Iterator
from copy import deepcopy
from datetime import date
from decimal import Decimal
from functools import partial
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from migration_payloads.profile import Profile
from migration_payloads.rules.catalogue import check_account
from migration_payloads.schemas.account import ACCOUNT_IMPORT
from migration_payloads.schemas.base import load
from migration_payloads.schemas.json import encode_json, parse_json
from migration_service_local import samples
from migration_service_local.cli.samples import ACCOUNTS_A_CHUNK, generate_chunks
from support.examples import TIMES

Account = dict[str, Any]
TODAY = date(2026, 3, 15)


@pytest.fixture(scope="module")
def book() -> list[Account]:
    return list(samples.generate_accounts(1_000, supplier="NORTHSTAR", today=TODAY))


def meter_points(account: Account) -> Iterator[dict[str, Any]]:
    for address in account["supply_addresses"]:
        yield from address["meter_points"]


def transactions(account: Account) -> Iterator[dict[str, Any]]:
    for ledger in account["ledgers"]:
        yield from ledger["historical_statement_transactions"]
        yield from ledger.get("transactions_in_open_settlement_period", [])


@settings(max_examples=100 * TIMES)
@given(
    seed=st.integers(0, 2**40),
    first=st.integers(0, 10**9),
    today=st.dates(date(2000, 1, 1), date(2199, 12, 31))
    | st.sampled_from([date(2026, 1, 1), date(2024, 2, 29), date(2025, 12, 31)]),
)
def test_every_account_of_any_seed_on_any_day_keeps_all_rules(seed: int, first: int, today: date) -> None:
    [account] = samples.generate_accounts(1, supplier="NORTHSTAR", seed=seed, first=first, today=today)
    data, errors = load(ACCOUNT_IMPORT, parse_json(encode_json(account)))
    assert errors == []
    assert list(check_account(data, profile=Profile.STRICT, today=today)) == []


def test_nobody_is_reached_by_an_address_of_a_sample(book: list[Account]) -> None:
    for account in book:
        for customer in account.get("customers", []):
            assert re.fullmatch(r"[a-z]+\.[a-z]+\d+@[a-z]+\.example", customer["email"])


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


def _has_type(kind: str) -> Callable[[Account], bool]:
    return lambda account: any(item["type"] == kind for item in transactions(account))


def _any_point(holds: Callable[[dict[str, Any]], bool]) -> Callable[[Account], bool]:
    return lambda account: any(holds(point) for point in meter_points(account))


def _registers(point: dict[str, Any]) -> list[dict[str, Any]]:
    return [register for meter in point["meters"] for register in meter["registers"]]


VARIETY: list[tuple[str, Callable[[Account], bool], float, float]] = [
    ("electricity only", lambda a: all(p["supply_type"] == "ELECTRICITY" for p in meter_points(a)), 0.3, 0.5),
    ("both fuels", _any_point(lambda p: p["supply_type"] == "GAS"), 0.5, 0.7),
    ("solar", _any_point(lambda p: _registers(p)[-1]["register_id"].startswith("2.8.")), 0.15, 0.25),
    ("night registers", _any_point(lambda p: _registers(p)[0].get("time_of_use") == "OFF_PEAK"), 0.4, 0.7),
    ("two customers", lambda a: len(a.get("customers", [])) == 2, 0.2, 0.35),
    ("unknown occupier", lambda a: a["unknown_occupier"] == "true", 0.01, 0.06),
    ("several addresses", lambda a: len(a["supply_addresses"]) > 1, 0.02, 0.08),
    ("several ledgers", lambda a: len(a["ledgers"]) > 1, 0.03, 0.12),
    ("non-smart meter", _any_point(lambda p: p["smart_meter_administrative_status"] == "OFF"), 0.05, 0.3),
    ("payments", _has_type("PAYMENT"), 0.7, 1.0),
    ("repayments", _has_type("REPAYMENT"), 0.05, 0.5),
    ("two agreements", _any_point(lambda p: len(p["agreements"]) > 1), 0.02, 0.2),
]  # fmt: skip


def test_the_book_has_its_share_of_each_kind(book: list[Account]) -> None:
    for kind, holds, least, most in VARIETY:
        assert least <= sum(map(holds, book)) / len(book) <= most, kind


def test_an_account_does_not_depend_on_the_range_it_is_made_in() -> None:
    whole = list(samples.generate_accounts(30, supplier="NORTHSTAR", today=TODAY, broken_share=0.5))
    part = list(samples.generate_accounts(10, supplier="NORTHSTAR", today=TODAY, first=12, broken_share=0.5))
    assert part == whole[12:22]


def test_the_books_of_known_seeds_have_not_changed() -> None:
    """Tests and benchmarks rely on seeds, so a change of the books should be intended."""
    accounts = samples.generate_accounts(200, supplier="NORTHSTAR", seed=1, today=TODAY, broken_share=0.1)
    lines = b"".join(samples.write_lines(accounts))
    assert (
        hashlib.sha256(lines).hexdigest()
        == "6705e076e54b5b44db9735c19c2bb664beb1643503cb5e42f97132e05a2a92f0"
    )


@pytest.mark.parametrize(
    "arguments",
    [{"count": -1}, {"count": 1, "first": -1}, {"count": 1, "seed": -1}, {"count": 1, "broken_share": 1.5}],
)
def test_invalid_books_are_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="must be"):
        next(samples.generate_accounts(**arguments, supplier="NORTHSTAR"))


def test_the_broken_share_is_as_requested_and_broken_accounts_are_not_marked(book: list[Account]) -> None:
    accounts = samples.generate_accounts(1_000, supplier="NORTHSTAR", today=TODAY, broken_share=0.06)
    pairs = list(zip(book, accounts, strict=True))
    assert 40 <= sum(account != sound for sound, account in pairs) <= 80
    assert all(account.keys() <= sound.keys() for sound, account in pairs)


@pytest.mark.parametrize("compress", [False, True], ids=["plain", "gzip"])
@pytest.mark.parametrize("workers", [1, 3])
def test_chunks_are_the_lines_in_order_whatever_the_number_of_workers(workers: int, compress: bool) -> None:
    count = 2 * ACCOUNTS_A_CHUNK + 7
    made = partial(samples.generate_accounts, supplier="NORTHSTAR", today=TODAY)
    chunks = list(generate_chunks(made, count, compress=compress, workers=workers))
    data = b"".join(chunk for _, chunk in chunks)
    assert sum(accounts for accounts, _ in chunks) == count
    expected = b"".join(samples.write_lines(made(count)))
    assert (gzip.decompress(data) if compress else data) == expected


def test_payloads_are_of_about_8_kilobytes(book: list[Account]) -> None:
    sizes = sorted(map(len, samples.write_lines(book[:500])))
    assert 7_000 < sizes[250] < 10_000
    assert 8_000 < sum(sizes) / len(sizes) < 11_000


@pytest.mark.parametrize("fault", samples.FAULTS)
def test_a_copy_is_broken_in_the_same_way_by_the_same_random_numbers(fault: str, book: list[Account]) -> None:
    """That the service finds each of them is tried with its rules."""
    for position, account in enumerate(book[:60]):
        if samples.FAULTS[fault].needs_customers and "customers" not in account:
            continue
        before = deepcopy(account)
        broken = samples.break_account(account, fault, Random(position))
        assert account == before
        assert broken != account
        assert broken == samples.break_account(account, fault, Random(position))
