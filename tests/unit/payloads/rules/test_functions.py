"""What rules decide by, which findings are left out, and the rules of added data."""

import json
from copy import deepcopy
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from random import Random
from typing import Any

import pytest
from hypothesis import given

from migration_payloads.profile import Profile
from migration_payloads.rules.added_data import check_note
from migration_payloads.rules.balances import differ, signed_amount, sum_signed_amounts
from migration_payloads.rules.catalogue import check_account
from migration_payloads.rules.gs1 import check_digit, is_gs1_number
from migration_payloads.rules.postcodes import comparable_postcode, is_dutch_postcode, may_be_foreign
from migration_payloads.rules.rule import Severity
from migration_payloads.schemas.account import ACCOUNT_IMPORT
from migration_payloads.schemas.base import load
from migration_payloads.schemas.json import encode_json, parse_json
from migration_payloads.validation import validate_account, validate_text
from migration_service.errors import ErrorItem, ParseError
from migration_service_local.samples import generate_accounts
from migration_service_local.samples.books import generate_lines
from migration_service_local.samples.faults import FAULTS, break_account
from support.mutations import ANY_JSON, TODAY, damaged_accounts


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
        "0" * 18,  # whose check digit is right
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


SAMPLE = json.loads(
    json.dumps(min(generate_accounts(30, supplier="S", seed=2, today=TODAY), key=lambda it: len(str(it))))
)


def _codes(change: Any) -> list[str]:
    payload = deepcopy(SAMPLE)
    change(payload)
    account = validate_account(parse_json(encode_json(payload)), Profile.LENIENT)
    return sorted({item.code for item in (*account.errors, *account.warnings)})


def _null_line_items(payload: Any) -> None:
    for transaction in payload["ledgers"][0]["historical_statement_transactions"]:
        if "line_items" in transaction:
            transaction["line_items"] = None


def _send_an_address_again_with_other_postcodes(payload: Any) -> None:
    """Both postcodes are refused. So nobody can say that the addresses are the same."""
    first = payload["supply_addresses"][0]
    first["supply_postcode"] = 7
    payload["supply_addresses"].append({**first, "supply_postcode": 8, "meter_points": []})


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda it: it.update(supply_addresses=7), "not_a_list"),
        (lambda it: it.update(billing_postcode=7), "invalid"),
        (lambda it: it["supply_addresses"][0].update(meter_points=[7]), "not_a_dict"),
        (lambda it: it.update(unknown_occupier="maybe", customers=[]), "invalid"),
        (lambda it: it["ledgers"][0].update(last_settlement_balance="x"), "invalid"),
        (_null_line_items, "null"),
    ],
)
def test_only_the_fault_itself_is_reported(change: Any, code: str) -> None:
    assert _codes(change) == [code]


def test_an_unknown_field_is_a_warning_under_lenient_that_names_the_one_meant() -> None:
    account = validate_account({**SAMPLE, "biling_postcode": "1"}, Profile.LENIENT)
    [warning] = [item for item in account.warnings if item.code == "unknown_field"]
    assert warning.attr == "biling_postcode"
    assert "did you mean billing_postcode?" in warning.detail


def test_addresses_whose_postcodes_were_refused_are_not_the_same() -> None:
    assert _codes(_send_an_address_again_with_other_postcodes) == [
        "invalid",
        "supply_address_with_no_meter_points",
    ]


_TODAY = date(2025, 6, 15)
_LINES = list(generate_lines(150, supplier="S", today=_TODAY))


def _find_everything(payload: Any, profile: Profile) -> list[ErrorItem]:
    """Return the errors of the schema, and the findings of the rules for the rest."""
    data, errors = load(ACCOUNT_IMPORT, payload)
    faulty = [error.attr for error in errors if error.attr]
    findings = check_account(data, profile=profile, today=_TODAY, faulty=faulty)
    return errors + [finding.error_item() for finding in findings]


@pytest.mark.parametrize("fault", FAULTS)
def test_a_known_fault_of_a_sample_is_reported_with_its_code(fault: str) -> None:
    payload = next(payload for payload in map(parse_json, _LINES) if "customers" in payload)
    broken = parse_json(encode_json(break_account(payload, fault, Random(1))))
    assert FAULTS[fault].code in {error.code for error in _find_everything(broken, Profile.LENIENT)}


def _check_answers(payload: Any) -> None:
    """Check that what is found in a payload can be sent. One that cannot be read has its own answer."""
    try:
        sent = parse_json(json.dumps(payload).encode())
    except ParseError:
        return
    for profile in Profile:
        errors = _find_everything(sent, profile)
        encode_json([error.to_dict() for error in errors])
        assert all(error.attr is None or all(error.attr.split(".")) for error in errors)


@given(damaged_accounts())
def test_a_damaged_payload_is_validated_without_an_exception(payload: Any) -> None:
    _check_answers(payload)


@given(ANY_JSON)
def test_any_json_is_validated_without_an_exception(payload: Any) -> None:
    _check_answers(payload)


_NOW = datetime(2025, 11, 3, 12, tzinfo=UTC)
_SECOND = timedelta(seconds=1)
_TOO_EARLY = "note_unpin_at_earlier_than_creation_date"


def test_a_note_without_a_time_of_unpinning_is_fine() -> None:
    assert list(check_note({"body": "a"}, _NOW, 0)) == []


@pytest.mark.parametrize("created_at", [{}, {"created_at": _NOW}])
def test_a_note_may_be_unpinned_from_the_moment_on_at_which_it_is_created(
    created_at: dict[str, datetime],
) -> None:
    note = {"body": "a", "is_pinned": True, **created_at}
    now = _NOW if not created_at else _NOW + timedelta(days=1)
    assert list(check_note({**note, "unpin_at": _NOW}, now, 0)) == []
    [finding] = check_note({**note, "unpin_at": _NOW - _SECOND}, now, 2)
    assert (finding.attr, finding.code, finding.severity) == (
        "notes.2.unpin_at",
        _TOO_EARLY,
        Severity.WARNING,
    )


@pytest.mark.parametrize(
    ("ahead", "found"), [(timedelta(minutes=5), []), (timedelta(minutes=5, seconds=1), 1)]
)
def test_a_note_is_not_created_in_the_future_but_the_clock_of_a_client_may_be_fast(
    ahead: timedelta, found: object
) -> None:
    findings = list(check_note({"body": "a", "created_at": _NOW + ahead}, _NOW, 3))
    assert [(it.attr, it.code) for it in findings] == (
        [("notes.3.created_at", "note_created_in_future")] if found else []
    )


def test_a_time_that_stands_for_none_and_a_body_in_the_wrong_encoding_are_found() -> None:
    long_ago = datetime(1, 1, 1, tzinfo=UTC)
    note = {"body": "BÃ¼cher", "created_at": long_ago, "is_pinned": True, "unpin_at": long_ago}
    note["document_paths"] = [{"document_path": "a.pdf"}, {"document_path": "brievÃ«n.pdf"}]
    assert [(it.attr, it.code) for it in check_note(note, _NOW, 0)] == [
        ("notes.0.created_at", "placeholder_date"),
        ("notes.0.unpin_at", "placeholder_date"),
        ("notes.0.body", "wrong_encoding"),
        ("notes.0.document_paths.1.document_path", "wrong_encoding"),
    ]


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("B\u00c3\u00bccher", "wrong_encoding"),
        ("M?ller", "wrong_encoding"),
        ("M\u00fcl\u200bler", "invisible_characters"),
        ("Mul\nler", "invisible_characters"),
        ("Mul\x7fler", "invisible_characters"),
    ],
)
def test_what_is_wrong_with_a_text_is_found_in_a_payload_that_is_read_as_text(name: str, code: str) -> None:
    (account,) = generate_accounts(1, supplier="S")
    account["customers"][0]["family_name"] = name
    for is_ascii in (True, False):
        found = validate_text(json.dumps(account, ensure_ascii=is_ascii).encode(), Profile.LENIENT)
        assert [(it.attr, it.code) for it in found.warnings] == [("customers.0.family_name", code)]


def test_both_faults_of_a_note_are_found() -> None:
    findings = check_note({"body": "a", "unpin_at": _NOW - _SECOND}, _NOW, 0)
    assert [finding.code for finding in findings] == ["unpin_without_pin", _TOO_EARLY]
