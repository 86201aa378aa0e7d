"""The pure functions that other parts of the service also use."""

from decimal import Decimal

import pytest

from migration_payloads.rules.balances import differ, signed_amount, sum_signed_amounts
from migration_payloads.rules.gs1 import check_digit, is_gs1_number
from migration_payloads.rules.postcodes import comparable_postcode, is_dutch_postcode, may_be_foreign


@pytest.mark.parametrize(
    "number",
    [
        "871685920001232914",
        "871687100009943212",
        "8716871000002",
        "8716892000005",
        "8712423014022",
        "8742010102115",
        "8742090202118",
        "4006381333931",
    ],
)
def test_the_last_digit_of_a_gs1_number_is_its_check_digit(number: str) -> None:
    assert check_digit(number[:-1]) == number[-1]
    assert is_gs1_number(number, len(number))


@pytest.mark.parametrize(
    "number",
    [
        "871234567890123456",  # would end in 1
        "87168592000123291",
        "8716859200012329140",
        "",
        "87168592000123291²",
        "٨٧١٦٨٥٩٢٠٠٠١٢٣٢٩١٤",
        "87168592000123291A",
        " 71685920001232914",
    ],
)
def test_other_texts_are_not_eans(number: str) -> None:
    assert not is_gs1_number(number, 18)


def test_every_other_check_digit_is_wrong() -> None:
    body = "87168592000123291"
    assert [digit for digit in "0123456789" if is_gs1_number(body + digit, 18)] == ["4"]


@pytest.mark.parametrize("postcode", ["1000 AA", "9999ZZ", "3511 ab", "1234 SB", "1234 AS"])
def test_dutch_postcodes_are_recognised(postcode: str) -> None:
    assert is_dutch_postcode(postcode)


@pytest.mark.parametrize(
    "postcode",
    [
        "0999 AA",
        "1234 SA",
        "1234 sd",
        "1234SS",
        "1234",
        "12345",
        "1234  AB",
        "1234 AB ",
        "1234 A1",
        "1234 \u017fB",
        "",
    ],
)
def test_other_texts_are_not_dutch_postcodes(postcode: str) -> None:
    assert not is_dutch_postcode(postcode)


def test_a_postcode_of_another_country_is_told_from_a_misspelt_one() -> None:
    abroad = ["2000", "B-2000", "10115", "SW1A 1AA", "00-950", "1000-001", "114 55", "d02 af30"]
    assert [it for it in abroad if not may_be_foreign(it)] == []
    wrong = ["0511 AB", "3511 ss", "NL-3511 SD", "nowhere", "not a postcode", "12", "3511 AéB", "3511_AB"]
    assert [it for it in wrong if may_be_foreign(it)] == []


def test_postcodes_are_compared_without_spaces_and_case() -> None:
    assert comparable_postcode("1234 ab") == comparable_postcode("1234AB")


@pytest.mark.parametrize(
    ("kind", "signed"),
    [
        ("PAYMENT", "10.01"),
        ("CREDIT", "10.01"),
        ("CHARGE", "-10.01"),
        ("SUPPLY_CHARGE", "-10.01"),
        ("REPAYMENT", "-10.01"),
    ],
)
def test_credit_is_positive(kind: str, signed: str) -> None:
    assert signed_amount({"type": kind, "amount": Decimal("10.01")}) == Decimal(signed)


def test_a_signed_amount_keeps_every_digit() -> None:
    long = Decimal("123456789012345678901234567890.123456789")
    assert signed_amount({"type": "CHARGE", "amount": long}).copy_abs().compare_total(long) == 0


def test_the_sum_of_transactions_is_unknown_if_one_has_no_amount_or_type() -> None:
    paid, charged = {"type": "PAYMENT", "amount": Decimal(3)}, {"type": "CHARGE", "amount": Decimal("2.9")}
    assert sum_signed_amounts([paid, charged]) == Decimal("0.1")
    assert sum_signed_amounts([]) == 0
    assert sum_signed_amounts([paid, {"type": "CHARGE"}]) is None
    assert sum_signed_amounts([paid, {"amount": Decimal(1)}]) is None


@pytest.mark.parametrize(
    ("other", "result"), [("1.005", False), ("0.995", False), ("1.0051", True), ("0.9949", True)]
)
def test_amounts_differ_when_they_are_more_than_half_a_cent_apart(other: str, result: bool) -> None:
    assert differ(Decimal("1.00"), Decimal(other)) is result
