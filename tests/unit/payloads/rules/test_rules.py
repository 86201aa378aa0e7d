"""Each rule: what breaks it, what does not, its texts; and all of them together."""

import re
from collections import Counter
from collections.abc import Mapping
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from migration_payloads import rules
from migration_payloads.profile import Profile
from migration_payloads.rules import catalogue
from migration_payloads.rules.rule import Finding, Severity
from migration_payloads.schemas.bounds import MAX_ERRORS
from migration_payloads.schemas.json import encode_json
from support.mutations import places
from unit.payloads.examples import ABSENT, BREAKING, SOUND, TODAY, Example, change, load

_POWER = "supply_addresses.0.meter_points.0"
_GAS = "supply_addresses.0.meter_points.1"
_OPEN = "ledgers.0.transactions_in_open_settlement_period"
_HISTORICAL = "ledgers.0.historical_statement_transactions"


def _check(changes: Mapping[str, Any], profile: Profile = Profile.STRICT, **options: Any) -> list[Finding]:
    return catalogue.check_account(load(changes), profile=profile, today=TODAY, **options)


@pytest.mark.parametrize("example", BREAKING, ids=str)
def test_a_broken_rule_is_the_only_finding_and_an_error_under_the_strict_profile(example: Example) -> None:
    findings = _check(example.changes, Profile.LENIENT)
    lenient = "warning" if example.severity == "notice" else example.severity
    assert [(f.code, f.severity, f.attr, f.detail) for f in findings] == [
        (example.code, lenient, example.attr, example.detail)
    ]
    strict = _check(example.changes, Profile.STRICT, text=encode_json(load(example.changes)))
    raised = Severity.WARNING if example.severity == "notice" else Severity.ERROR
    assert [(f.code, f.severity) for f in strict] == [(example.code, raised)]


def test_every_rule_has_an_example_that_breaks_it_and_its_own_code_and_severity() -> None:
    shown = {(example.code, example.severity) for example in BREAKING}
    assert shown == (rules := {(rule.code, rule.severity) for rule in catalogue.RULES})
    assert len(rules) == len(catalogue.RULES)


@pytest.mark.parametrize("rule", catalogue.RULES, ids=lambda rule: f"{rule.code}-{rule.severity}")
def test_a_rule_has_a_meaning_and_a_remedy(rule: Any) -> None:
    assert re.fullmatch(r"[a-z][a-z0-9_]*", rule.code)
    for sentence in (rule.meaning, rule.remedy):
        assert re.fullmatch(r"[A-Z][^\n]+\.", sentence)


@pytest.mark.parametrize("example", SOUND, ids=str)
def test_nothing_is_found_in_valid_variants(example: Example) -> None:
    assert _check(example.changes) == []


_ITEMS = [f"{_HISTORICAL}.{it}" for it in ("0.line_items.0", "0.line_items.1", "1.line_items.0")]


@pytest.mark.parametrize(
    ("changes", "code", "attrs"),
    [
        (
            {"customers.0.family_name": ABSENT, "customers.1.family_name": "  "},
            "customer_family_name_required",
            ["customers.0.family_name", "customers.1.family_name"],
        ),
        (
            {f"{_ITEMS[0]}.start_date": date(2025, 5, 1), f"{_ITEMS[1]}.end_date": date(2025, 4, 1)},
            "start_date_later_than_end_date",
            [f"{_ITEMS[0]}.end_date"],
        ),
        (
            {f"{_ITEMS[2]}.start_date": date(2025, 5, 1)},
            "start_date_later_than_end_date",
            [f"{_ITEMS[2]}.end_date"],
        ),
        ({"customers.1": {"copy_of": "customers.0"}}, "duplicate_customers_found", ["customers.1"]),
        *(
            ({attr: "NEW_WORD"}, "unlisted_value", [attr])
            for attr in (
                *(f"{_ITEMS[1]}.rate_band", f"{_OPEN}.0.payment_type", f"{_OPEN}.2.reason"),
                f"{_GAS}.meters.0.registers.0.time_of_use",
            )
        ),
    ],
)
def test_each_place_is_found_and_no_other(changes: dict[str, Any], code: str, attrs: list[str]) -> None:
    assert [(f.attr, f.code) for f in _check(changes)] == [(attr, code) for attr in attrs]


@pytest.mark.parametrize(("place", "found"), [(0, []), (1, ["statements.0.statement_path"])])
def test_a_context_that_the_schema_refused_is_no_missing_document(place: int, found: list[str]) -> None:
    faulty = [f"statements.{place}.statement_pdf_context"]
    assert [f.attr for f in _check({"statements.0.statement_path": ABSENT}, faulty=faulty)] == found


def test_a_rule_finds_one_more_than_an_answer_lists_and_then_stops() -> None:
    """So the answer says that there are more. The rules after it still have their say."""
    customers = [{"given_name": str(i)} for i in range(MAX_ERRORS + 5)]
    account = load({"customers": customers, "unknown_occupier": True})
    found = Counter(it.code for it in catalogue.check_account(account, profile=Profile.LENIENT, today=TODAY))
    assert found == {"customer_family_name_required": MAX_ERRORS + 1, "customer_with_unknown_occupier": 1}


_FAULTS: dict[str, Any] = {
    "statements.0.statement_path": ABSENT,
    "customers.1.family_name": "",
    "billing_postcode": "12",
    "customers.0.family_name": "",
    "customers.0.email": "test@provider.example",
    "supply_addresses.0.meter_points.1.meters": [],
    "ledgers.0.transactions_in_open_settlement_period.1.reason": ABSENT,
}


def _find(account: dict[str, Any], **options: Any) -> list[Finding]:
    return catalogue.check_account(account, profile=Profile.LENIENT, today=TODAY, **options)


def test_findings_are_sorted_by_path_whatever_the_order_of_the_keys() -> None:
    account = load(_FAULTS)
    assert [finding.attr for finding in _find(account)] == sorted(_FAULTS)
    assert _find(_reverse_keys(account)) == _find(account)


def _reverse_keys(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _reverse_keys(value[key]) for key in reversed(value)}
    return [_reverse_keys(item) for item in value] if isinstance(value, list) else value


def test_findings_in_a_list_are_sorted_by_index_and_not_as_text() -> None:
    customer = {"given_name": "A"}
    findings = _find({**load(), "customers": [{**customer, "email": f"{i}@a.nl"} for i in range(12)]})
    assert [finding.path[1] for finding in findings] == list(range(12))


def test_errors_of_the_schema_are_not_reported_again() -> None:
    account = change(load(), {"customers.0": {}, "ledgers.0.ledger_code": ABSENT})
    assert [finding.attr for finding in _find(account)] == ["customers.0.family_name"]
    assert _find(account, faulty=["customers.0", "ledgers.0.ledger_code"]) == []
    assert len(_find(account, faulty=["customers.01", "customers.0.family", "family_name"])) == 1


def test_an_error_of_the_schema_elsewhere_hides_no_finding_and_checking_changes_nothing() -> None:
    for example in BREAKING:
        account = load(example.changes)
        assert _find(account, faulty=["external_account_number"]) == _find(account), example.code
        assert account == load(example.changes)


@pytest.mark.parametrize(
    ("code", "refused"),
    [
        ("duplicate_customers_found", "customers.0.date_of_birth"),
        ("duplicate_customers_found", "customers.2.date_of_birth"),
        ("unknown_vat_reference", f"{_HISTORICAL}.0.line_items.1.params.ref"),
    ],
)
def test_nothing_is_equal_or_missing_because_of_a_value_that_the_schema_refused(
    code: str, refused: str
) -> None:
    example = next(it for it in BREAKING if it.code == code)
    account = load(example.changes)
    assert code in [finding.code for finding in _find(account)]
    assert code not in [finding.code for finding in _find(account, faulty=[refused])]


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
    assert catalogue.check_account(change(load(), changes), profile=Profile.STRICT, today=TODAY) == []


def test_rules_never_raise_if_any_single_value_is_missing() -> None:
    account = load()
    for container, key in places(account):
        if isinstance(container, dict):
            kept = container.pop(key)
            _find(account)
            container[key] = kept


def test_an_empty_account_lacks_only_the_required_fields() -> None:
    findings = catalogue.check_account({}, profile=Profile.LENIENT, today=TODAY)
    assert [(finding.attr, finding.code) for finding in findings] == [
        ("billing_address1", "billing_address_not_provided"),
        ("billing_postcode", "billing_address_not_provided"),
        ("customers", "customer_required"),
        ("ledgers", "ledger_missing"),
        ("supply_addresses", "meter_point_missing"),
    ]


@pytest.mark.parametrize(
    ("code", "field", "value"),
    [
        ("duplicate_customers_found", "customers.2.given_name", "Anne"),
        ("duplicate_customers_found", "customers.2.email", "anne@provider.example"),
        ("duplicate_customers_found", "customers.2.date_of_birth", "1930-01-01"),
        ("duplicate_supply_addresses_found", "supply_addresses.1.supply_address1", "Kerkstraat"),
        ("duplicate_supply_addresses_found", "supply_addresses.1.supply_address2", "13"),
        ("duplicate_supply_addresses_found", "supply_addresses.1.supply_address3", "A"),
        ("duplicate_supply_addresses_found", "supply_addresses.1.supply_address4", ""),
        ("duplicate_supply_addresses_found", "supply_addresses.1.supply_postcode", "3511 AC"),
        ("duplicate_meter_points_provided", "supply_addresses.1.meter_points.0.supply_type", "GAS"),
    ],
)
def test_what_differs_in_one_value_is_no_duplicate(code: str, field: str, value: Any) -> None:
    example = next(it for it in BREAKING if it.code == code)
    account = load({**example.changes, field: value})
    assert code not in [finding.code for finding in _find(account)]


def test_a_rule_has_the_name_of_its_code() -> None:
    others = {rule.check.__name__: rule.code for rule in catalogue.RULES if rule.code != rule.check.__name__}
    assert others == {"foreign_billing_postcode": "invalid_postcode"}


def test_every_module_of_rules_is_in_the_catalogue() -> None:
    [folder] = rules.__path__
    defined = sum(path.read_text().count("\n@rule(") for path in Path(folder).glob("*.py"))
    assert len(catalogue.RULES) == defined
