"""Each rule: what breaks it, what does not, and its texts."""

import re
from collections import Counter
from collections.abc import Mapping
from datetime import date
from typing import Any

import pytest

from migration_payloads.profile import Profile
from migration_payloads.rules.catalogue import RULES, check_account
from migration_payloads.rules.rule import Finding, Severity
from migration_payloads.schemas.bounds import MAX_ERRORS
from migration_service.errors import ErrorItem
from unit.payloads.examples import ABSENT, BREAKING, SOUND, TODAY, Example, load

_POWER = "supply_addresses.0.meter_points.0"
_GAS = "supply_addresses.0.meter_points.1"
_OPEN = "ledgers.0.transactions_in_open_settlement_period"
_ADVANCE = f"{_GAS}.agreements.0.monthly_advance_charge_template"
_HISTORICAL = "ledgers.0.historical_statement_transactions"


def _check(changes: Mapping[str, Any], profile: Profile = Profile.STRICT, **options: Any) -> list[Finding]:
    return check_account(load(changes), profile=profile, today=TODAY, **options)


def test_nothing_is_found_in_the_valid_account() -> None:
    assert _check({}) == []


@pytest.mark.parametrize("example", BREAKING, ids=str)
def test_a_broken_rule_is_the_only_finding_and_an_error_under_the_strict_profile(example: Example) -> None:
    findings = _check(example.changes, Profile.LENIENT)
    lenient = "warning" if example.severity == "notice" else example.severity
    assert [(f.code, f.severity, f.attr, f.detail) for f in findings] == [
        (example.code, lenient, example.attr, example.detail)
    ]
    strict = _check(example.changes, Profile.STRICT)
    raised = Severity.WARNING if example.severity == "notice" else Severity.ERROR
    assert [(f.code, f.severity) for f in strict] == [(example.code, raised)]


def test_every_rule_has_an_example_that_breaks_it() -> None:
    shown = {(example.code, example.severity) for example in BREAKING}
    assert shown == {(rule.code, rule.severity) for rule in RULES}


def test_each_code_and_severity_has_one_rule() -> None:
    assert len({(rule.code, rule.severity) for rule in RULES}) == len(RULES)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: f"{rule.code}-{rule.severity}")
def test_a_rule_has_a_meaning_and_a_remedy(rule: Any) -> None:
    assert re.fullmatch(r"[a-z][a-z0-9_]*", rule.code)
    for sentence in (rule.meaning, rule.remedy):
        assert re.fullmatch(r"[A-Z][^\n]+\.", sentence)


@pytest.mark.parametrize("example", SOUND, ids=str)
def test_nothing_is_found_in_valid_variants(example: Example) -> None:
    assert _check(example.changes) == []


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
    findings = _check({"customers.1": {"copy_of": "customers.0"}})
    assert [(f.attr, f.code) for f in findings] == [("customers.1", "duplicate_customers_found")]


def test_a_rule_finds_one_more_than_an_answer_lists_and_then_stops() -> None:
    """So the answer says that there are more. The rules after it still have their say."""
    customers = [{"given_name": str(i)} for i in range(MAX_ERRORS + 5)]
    account = load({"customers": customers, "unknown_occupier": True})
    found = Counter(it.code for it in check_account(account, profile=Profile.LENIENT, today=TODAY))
    assert found == {"customer_family_name_required": MAX_ERRORS + 1, "customer_with_unknown_occupier": 1}


def test_a_finding_becomes_the_error_object_of_the_interface() -> None:
    finding = Finding(("customers", 0, "landline"), "some_code", "Change it.", Severity.ERROR)
    assert finding.error_item() == ErrorItem("some_code", "Change it.", "customers.0.landline")


def test_a_long_value_is_cut_in_the_detail() -> None:
    [finding] = _check({"billing_postcode": "A" * 5_000})
    assert len(finding.detail) < 150
