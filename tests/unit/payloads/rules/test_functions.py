"""What rules decide by, which findings are left out, and the rules of added data."""

import json
from copy import deepcopy
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given

from migration_payloads.profile import Profile
from migration_payloads.rules.added_data import check_note
from migration_payloads.rules.balances import differ, signed_amount, sum_signed_amounts
from migration_payloads.rules.catalogue import check_account
from migration_payloads.rules.gs1 import check_digit, is_gs1_number, is_probably_rounded
from migration_payloads.rules.rule import Severity
from migration_payloads.schemas.account import ACCOUNT_IMPORT
from migration_payloads.schemas.base import load
from migration_payloads.schemas.json import encode_json, parse_json
from migration_payloads.validation import validate_account
from migration_service.errors import ParseError
from migration_service_local.samples import generate_accounts
from support.mutations import ANY_JSON, TODAY, damaged_accounts


def test_the_last_digit_of_a_gs1_number_is_its_check_digit() -> None:
    numbers = "871685920001232914 871687100009943212 8716871000002 8716892000005 8712423014022 8742010102115"
    for number in [*numbers.split(), "8742090202118", "4006381333931"]:
        assert check_digit(number[:-1]) == number[-1]
        found = [digit for digit in "0123456789" if is_gs1_number(number[:-1] + digit, len(number))]
        assert found == [number[-1]]


@pytest.mark.parametrize(
    "number",
    [
        *("871234567890123456", "87168592000123291", "8716859200012329140", "", "87168592000123291²"),
        *("٨٧١٦٨٥٩٢٠٠٠١٢٣٢٩١٤", "87168592000123291A", " 71685920001232914"),
        "0" * 18,  # whose check digit is right
    ],
)
def test_other_texts_are_not_eans(number: str) -> None:
    assert not is_gs1_number(number, 18)


def test_credit_is_positive_and_keeps_every_digit() -> None:
    long = Decimal("123456789012345678901234567890.123456789")
    signs = {"PAYMENT": 1, "CREDIT": 1, "CHARGE": -1, "SUPPLY_CHARGE": -1, "REPAYMENT": -1}
    for kind, sign in signs.items():
        signed = signed_amount({"type": kind, "amount": long})
        assert str(signed) == ("-" if sign < 0 else "") + str(long)


def test_the_sum_of_transactions_is_unknown_if_one_has_no_amount_or_type() -> None:
    paid, charged = {"type": "PAYMENT", "amount": Decimal(3)}, {"type": "CHARGE", "amount": Decimal("2.9")}
    assert sum_signed_amounts([paid, charged]) == Decimal("0.1")
    assert sum_signed_amounts([]) == 0
    assert sum_signed_amounts([paid, {"type": "CHARGE"}]) is None
    assert sum_signed_amounts([paid, {"amount": Decimal(1)}]) is None


def test_fifteen_digits_of_which_three_are_zeros_were_probably_rounded() -> None:
    numbers = ("1" * 12 + "000", "1" * 11 + "000", "1" * 13 + "00")
    assert [is_probably_rounded(it) for it in numbers] == [True, False, False]


def test_amounts_differ_when_they_are_more_than_half_a_cent_apart() -> None:
    found = [differ(Decimal(1), Decimal(other)) for other in ("1.005", "0.995", "1.0051", "0.9949")]
    assert found == [False, False, True, True]


SAMPLE = json.loads(
    json.dumps(min(generate_accounts(30, supplier="S", seed=2, today=TODAY), key=lambda it: len(str(it))))
)


def _periods(payload: Any) -> list[Any]:
    meter_point = payload["supply_addresses"][0]["meter_points"][0]
    periods: list[Any] = meter_point["billing_configuration_periods"]
    return periods


def _send_an_address_again_with_other_postcodes(payload: Any) -> None:
    """Both postcodes are refused. So nobody can say that the addresses are the same."""
    first = payload["supply_addresses"][0]
    first["supply_postcode"] = 7
    payload["supply_addresses"].append({**first, "supply_postcode": 8, "meter_points": []})


@pytest.mark.parametrize(
    ("change", "codes"),
    [
        (lambda it: it.update(unknown_occupier="maybe", customers=[]), {"invalid"}),
        (_send_an_address_again_with_other_postcodes, {"invalid", "supply_address_with_no_meter_points"}),
        (lambda it: it["statements"].append(it["statements"][0]), {"duplicate_statement_ids"}),
        (lambda it: _periods(it).append(_periods(it)[0]), {"duplicate_period_start"}),
    ],
)
def test_what_would_only_follow_from_a_fault_is_not_reported(change: Any, codes: set[str]) -> None:
    change(payload := deepcopy(SAMPLE))
    account = validate_account(parse_json(encode_json(payload)), Profile.LENIENT)
    assert {item.code for item in (*account.errors, *account.warnings)} == codes


def _check_answers(payload: Any) -> None:
    """Check that what is found in a payload can be sent. One that cannot be read has its own answer."""
    try:
        sent = parse_json(json.dumps(payload).encode())
    except ParseError:
        return
    for profile in Profile:
        data, errors = load(ACCOUNT_IMPORT, sent)
        faulty = [error.attr for error in errors if error.attr]
        findings = check_account(data, profile=profile, today=date(2025, 6, 15), faulty=faulty)
        errors += [finding.error_item() for finding in findings]
        encode_json([error.to_dict() for error in errors])
        assert all(error.attr is None or all(error.attr.split(".")) for error in errors)


@given(damaged_accounts())
def test_a_damaged_payload_is_validated_without_an_exception(payload: Any) -> None:
    _check_answers(payload)


@given(ANY_JSON)
def test_any_json_is_validated_without_an_exception(payload: Any) -> None:
    _check_answers(payload)


_NOW = datetime(2025, 11, 3, 12, tzinfo=UTC)
_LATER, _SECOND = _NOW + timedelta(days=1), timedelta(seconds=1)
_NONE = datetime(1, 1, 1, tzinfo=UTC)
_PATHS = [{"document_path": "a.pdf"}, {"document_path": "briev\u00c3\u00abn.pdf"}]
_TOO_EARLY = ("notes.2.unpin_at", "note_unpin_at_earlier_than_creation_date")


@pytest.mark.parametrize(
    ("note", "now", "found"),
    [
        ({}, _NOW, []),
        ({"is_pinned": True, "unpin_at": _NOW}, _NOW, []),
        ({"is_pinned": True, "unpin_at": _NOW - _SECOND}, _NOW, [_TOO_EARLY]),
        ({"is_pinned": True, "unpin_at": _NOW, "created_at": _NOW}, _LATER, []),
        ({"is_pinned": True, "unpin_at": _NOW - _SECOND, "created_at": _NOW}, _LATER, [_TOO_EARLY]),
        ({"unpin_at": _NOW - _SECOND}, _NOW, [("notes.2.unpin_at", "unpin_without_pin"), _TOO_EARLY]),
        # The clock of a client may be fast.
        ({"created_at": _NOW + timedelta(minutes=5)}, _NOW, []),
        (
            {"created_at": _NOW + timedelta(minutes=5, seconds=1)},
            _NOW,
            [("notes.2.created_at", "note_created_in_future")],
        ),
        (
            {"body": "B\u00c3\u00bccher", "created_at": _NONE, "document_paths": _PATHS}
            | {"is_pinned": True, "unpin_at": _NONE},
            _NOW,
            [
                ("notes.2.created_at", "placeholder_date"),
                ("notes.2.unpin_at", "placeholder_date"),
                ("notes.2.body", "wrong_encoding"),
                ("notes.2.document_paths.1.document_path", "wrong_encoding"),
            ],
        ),
    ],
)
def test_what_is_found_in_a_note(note: dict[str, Any], now: datetime, found: list[tuple[str, str]]) -> None:
    findings = list(check_note({"body": "a"} | note, now, 2))
    assert [(it.attr, it.code) for it in findings] == found
    assert {it.severity for it in findings} <= {Severity.WARNING}
