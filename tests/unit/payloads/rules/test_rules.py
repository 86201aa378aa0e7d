"""Each rule: what breaks it, what does not, and its texts."""

import re
from collections import Counter
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pytest

from migration_payloads.profile import Profile
from migration_payloads.rules.catalogue import RULES, check_account
from migration_payloads.rules.rule import Finding, Severity
from migration_payloads.schemas.bounds import MAX_ERRORS
from migration_service.errors import ErrorItem
from unit.payloads.rules.breaking_examples import BREAKING_EXAMPLES, BreakingExample
from unit.payloads.rules.valid_account import ABSENT, ELECTRICITY_EAN, TODAY, change, make_valid_account

_POWER = "supply_addresses.0.meter_points.0"
_GAS = "supply_addresses.0.meter_points.1"
_OPEN = "ledgers.0.transactions_in_open_settlement_period"
_ADVANCE = f"{_GAS}.agreements.0.monthly_advance_charge_template"
_HISTORICAL = "ledgers.0.historical_statement_transactions"


def _check(changes: dict[str, Any], profile: Profile = Profile.STRICT, **options: Any) -> list[Finding]:
    account = change(make_valid_account(), changes)
    return check_account(account, profile=profile, today=TODAY, **options)


def test_nothing_is_found_in_the_valid_account() -> None:
    assert _check({}) == []


@pytest.mark.parametrize("example", BREAKING_EXAMPLES, ids=lambda example: f"{example.code}-{example.attr}")
def test_a_broken_rule_is_the_only_finding_and_an_error_under_the_strict_profile(
    example: BreakingExample,
) -> None:
    findings = _check(example.changes, Profile.LENIENT)
    lenient = "warning" if example.severity == "notice" else example.severity
    assert [(f.code, f.severity, f.attr, f.detail) for f in findings] == [
        (example.code, lenient, example.attr, example.detail)
    ]
    strict = _check(example.changes, Profile.STRICT)
    raised = Severity.WARNING if example.severity == "notice" else Severity.ERROR
    assert [(f.code, f.severity) for f in strict] == [(example.code, raised)]


def test_every_rule_has_an_example_that_breaks_it() -> None:
    shown = {(example.code, example.severity) for example in BREAKING_EXAMPLES}
    assert shown == {(rule.code, rule.severity) for rule in RULES}


def test_each_code_and_severity_has_one_rule() -> None:
    assert len({(rule.code, rule.severity) for rule in RULES}) == len(RULES)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: f"{rule.code}-{rule.severity}")
def test_a_rule_has_a_meaning_and_a_remedy(rule: Any) -> None:
    assert re.fullmatch(r"[a-z][a-z0-9_]*", rule.code)
    for sentence in (rule.meaning, rule.remedy):
        assert re.fullmatch(r"[A-Z][^\n]+\.", sentence)


#: Changes that no rule finds.
SOUND_CHANGES: dict[str, dict[str, Any]] = {
    "a postcode is empty and the occupier unknown": {
        "unknown_occupier": True,
        "customers": ABSENT,
        "billing_address1": "",
        "billing_postcode": "",
    },
    "a postcode in small letters without a space": {"billing_postcode": "9999zz"},
    "born today": {"customers.0.date_of_birth": TODAY},
    "born on the second day of 1900": {"customers.0.date_of_birth": date(1900, 1, 2)},
    "an address at a domain under .example": {"customers.0.email": "info@company.example"},
    "an address that only begins like a test": {"customers.0.email": "testa@notexample.com"},
    "no address at all": {"customers.0.email": ABSENT, "customers.1.email": ABSENT},
    "a family name that contains the word": {"customers.0.family_name": "Bewonerman"},
    "the same name with another date of birth": {
        "customers.1": lambda account: {**account["customers"][0], "date_of_birth": date(1955, 1, 1)}
    },
    "electricity and gas under one EAN": {
        f"{_GAS}.ean": ELECTRICITY_EAN,
        "ledgers.0.identifiers": [ELECTRICITY_EAN],
    },
    "an agreement from the day the supply starts": {
        f"{_POWER}.supply_start_date": date(2023, 1, 1),
    },
    "an agreement agreed on the day it starts": {f"{_GAS}.agreements.0.agreed_at": date(2023, 1, 1)},
    "billed to the day the first agreement starts": {f"{_POWER}.last_billed_to_date": date(2023, 1, 1)},
    "billed to the day before the supply": {
        f"{_GAS}.supply_start_date": date(2025, 6, 1),
        f"{_GAS}.agreements.0.effective_from": ABSENT,
    },
    "supply from today": {
        f"{_GAS}.supply_start_date": TODAY,
        f"{_GAS}.last_billed_to_date": ABSENT,
        f"{_GAS}.agreements.0.effective_from": TODAY,
    },
    "billed to today": {f"{_POWER}.last_billed_to_date": TODAY},
    "gas that generates in whatever unit": {
        f"{_GAS}.agreements.0.monthly_advance_charge_template.forecast_generation_units": "KWH_CONSUMPION"
    },
    "a second period of a kind that has no end": {
        f"{_POWER}.energy_meter_point_configuration_periods.+": {
            "profile_category": "E1B",
            "cap_tar_code": "8742010102115",
            "start_date": date(2024, 1, 1),
        }
    },
    "a line item of one day": {f"{_HISTORICAL}.0.line_items.0.end_date": date(2025, 4, 1)},
    "a bill period of one day": {"statements.0.bill_period_to_date": date(2025, 4, 1)},
    "a bill period that ends today": {"statements.0.bill_period_to_date": TODAY},
    "a statement of today": {"statements.0.issued_date": TODAY},
    "periods in any order": {
        f"{_POWER}.billing_configuration_periods": lambda account: account["supply_addresses"][0][
            "meter_points"
        ][0]["billing_configuration_periods"][::-1]
    },
    "a settlement issued on the day it is closed": {
        "ledgers.0.last_settlement_issue_date": date(2025, 5, 31)
    },
    "a settlement that closes today": {"ledgers.1.last_settlement_closing_date": TODAY},
    "a balance half a cent off": {"ledgers.0.ledger_balance": Decimal("3.505")},
    "a balance half a cent off the other way": {"ledgers.0.ledger_balance": Decimal("3.495")},
    "a balance of a settlement": {
        "ledgers.1.ledger_balance": Decimal("12.34"),
        "ledgers.1.last_settlement_balance": Decimal("12.34"),
    },
    "never billed, without a start of the supply": {
        f"{_POWER}.last_billed_to_date": date(2022, 12, 31),
        f"{_POWER}.supply_start_date": ABSENT,
    },
    "never billed, and the agreement starts after the supply": {
        f"{_GAS}.last_billed_to_date": date(2022, 11, 30),
    },
    "the first day that is no placeholder": {
        f"{_POWER}.meters.0.active_from": date(1900, 1, 2),
        f"{_POWER}.estimated_annual_volumes.2.start_at": datetime(1900, 1, 2),
    },
    "an advance of nothing": {
        f"{_ADVANCE}.total_monthly_advance_amount": "0",
        f"{_ADVANCE}.cost_details": [],
    },
    "an advance that is paid to the customer": {
        f"{_ADVANCE}.total_monthly_advance_amount": "-12.10",
        f"{_ADVANCE}.cost_details.0.net_amount": Decimal(-10),
        f"{_ADVANCE}.cost_details.0.tax_amount": Decimal("-2.1"),
        f"{_ADVANCE}.cost_details.0.tax_rate": Decimal("0.21"),
    },
    "an advance in whole euros": {f"{_ADVANCE}.total_monthly_advance_amount": "121"}
    | {f"{_ADVANCE}.cost_details.0.net_amount": Decimal("100.49")},
    "a price as it is printed": {
        f"{_HISTORICAL}.1.line_items.0.price_per_unit": Decimal("1.1"),
        f"{_HISTORICAL}.1.line_items.0.number_of_units": Decimal("99.6"),
    },
    "the readings of two meters": {
        f"{_HISTORICAL}.0.line_items.0.units": [Decimal(1), Decimal(2), Decimal(3), Decimal(4)]
    },
    "a payment of nothing": {f"{_OPEN}.0.amount": Decimal(0), "ledgers.0.ledger_balance": Decimal("-2.22")},
    "a question mark at the end of a name": {"customers.0.family_name": "Jansen?"},
    "letters that only look like a wrong encoding": {
        "customers.0.family_name": "Ãã Âå RENÉ\u2019S",
        "billing_address1": "„BLÅ” ÄÖ",
    },
    "a ledger that was never settled": {
        "ledgers.1.ledger_balance": Decimal("-1"),
        "ledgers.1.transactions_in_open_settlement_period": [
            {"type": "CHARGE", "amount": Decimal(1), "reason": "IMPORTED_CHARGE", "transaction_id": "T-8"}
        ],
    },
    "a net amount half a cent off": {f"{_HISTORICAL}.1.line_items.0.price_per_unit": Decimal("1.10005")},
    "a tax amount half a cent off": {
        f"{_HISTORICAL}.1.tax_items.0.rate": Decimal("0.23105"),
        f"{_HISTORICAL}.1.tax_items.0.value_taxed": Decimal(100),
    },
    "a payment of one cent": {
        f"{_OPEN}.0.amount": Decimal("0.01"),
        "ledgers.0.ledger_balance": Decimal("-2.21"),
    },
    "an e-mail address with two x": {"customers.0.email": "xx@post.nl"},
    "an amount half a cent off": {
        f"{_HISTORICAL}.1.line_items.0.net_amount": Decimal("110.005"),
        f"{_HISTORICAL}.1.line_items.0.price_per_unit": Decimal("1.10005"),
    },
    "a tax item without a rate": {f"{_HISTORICAL}.1.tax_items.0.rate": ABSENT},
    "a tax that is no proportion": {
        f"{_HISTORICAL}.1.tax_items.0.rate": Decimal(5),
        f"{_HISTORICAL}.1.tax_items.0.tax_type": "ENERGY_TAX",
        f"{_HISTORICAL}.1.tax_items.0.unit_type": ABSENT,
    },
    "a correction with a negative amount": {
        f"{_OPEN}.2.amount": Decimal("-2.50"),
        "ledgers.0.ledger_balance": Decimal("8.50"),
    },
    "empty lists where a supply charge has some": {f"{_OPEN}.2.line_items": [], f"{_OPEN}.2.tax_items": []},
    "a whole amount in more decimals": {f"{_OPEN}.2.amount": Decimal("2.5000")},
    "a gross amount of zero where the transactions make nothing": {
        "statements.0.gross_amount": Decimal(0),
        "statements.0.number": "INV-3",
        f"{_OPEN}.0.associated_invoice_number": "INV-3",
        f"{_HISTORICAL}.0.associated_invoice_number": "INV-2",
    },
    "an invoice number where no statements are sent": {"statements": ABSENT},
    "a statement with a context only": {
        "statements.0.statement_path": ABSENT,
        "statements.0.statement_pdf_context": {"template": "bill"},
    },
}


@pytest.mark.parametrize("name", SOUND_CHANGES)
def test_nothing_is_found_in_valid_variants(name: str) -> None:
    assert _check(SOUND_CHANGES[name]) == []


def test_a_rule_finds_every_place() -> None:
    findings = _check({"customers.0.family_name": ABSENT, "customers.1.family_name": "  "})
    assert [f.attr for f in findings] == ["customers.0.family_name", "customers.1.family_name"]


@pytest.mark.parametrize(("place", "found"), [(0, []), (1, ["statements.0.statement_path"])])
def test_a_context_that_the_schema_refused_is_no_missing_document(place: int, found: list[str]) -> None:
    faulty = [f"statements.{place}.statement_pdf_context"]
    assert [f.attr for f in _check({"statements.0.statement_path": ABSENT}, faulty=faulty)] == found


def test_only_the_line_items_that_end_before_they_start_are_found() -> None:
    reversed_line = {f"{_HISTORICAL}.0.line_items.0.start_date": date(2025, 5, 1)}
    of_one_day = {f"{_HISTORICAL}.0.line_items.1.end_date": date(2025, 4, 1)}
    findings = _check(reversed_line | of_one_day)
    assert [f.attr for f in findings] == [f"{_HISTORICAL}.0.line_items.0.end_date"]


def test_an_only_line_item_that_ends_before_it_starts_is_found() -> None:
    findings = _check({f"{_HISTORICAL}.1.line_items.0.start_date": date(2025, 5, 1)})
    assert [f.attr for f in findings] == [f"{_HISTORICAL}.1.line_items.0.end_date"]


@pytest.mark.parametrize(
    "attr",
    [
        f"{_HISTORICAL}.0.line_items.1.rate_band",
        f"{_OPEN}.0.payment_type",
        f"{_OPEN}.2.reason",
        f"{_GAS}.meters.0.registers.0.time_of_use",
    ],
)
def test_a_word_that_is_not_listed_is_found_wherever_it_is(attr: str) -> None:
    findings = _check({attr: "NEW_WORD"}, Profile.LENIENT)
    assert [(f.attr, f.code, f.severity) for f in findings] == [(attr, "unlisted_value", Severity.WARNING)]


def test_two_customers_of_an_account_may_not_be_the_same() -> None:
    findings = _check({"customers.1": lambda account: account["customers"][0]})
    assert [(f.attr, f.code) for f in findings] == [("customers.1", "duplicate_customers_found")]


def test_a_rule_finds_one_more_than_an_answer_lists_and_then_stops() -> None:
    """So the answer says that there are more. The rules after it still have their say."""
    account = change(
        make_valid_account(),
        {"customers": [{"given_name": str(i)} for i in range(MAX_ERRORS + 5)], "unknown_occupier": True},
    )
    found = Counter(it.code for it in check_account(account, profile=Profile.LENIENT, today=TODAY))
    assert found == {"customer_family_name_required": MAX_ERRORS + 1, "customer_with_unknown_occupier": 1}


def test_a_finding_becomes_the_error_object_of_the_interface() -> None:
    finding = Finding(("customers", 0, "landline"), "some_code", "Change it.", Severity.ERROR)
    assert finding.error_item() == ErrorItem("some_code", "Change it.", "customers.0.landline")


def test_a_long_value_is_cut_in_the_detail() -> None:
    [finding] = _check({"billing_postcode": "A" * 5_000})
    assert len(finding.detail) < 150
