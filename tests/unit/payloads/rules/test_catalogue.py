"""All rules together: their order, the profiles, errors of the schema, and the version."""

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from migration_payloads import rules
from migration_payloads.profile import Profile
from migration_payloads.rules.catalogue import (
    RULES,
    check_account,
)
from migration_payloads.rules.rule import Finding
from support.mutations import places
from unit.payloads.examples import ABSENT, BREAKING, TODAY, change, load

_FAULTS: dict[str, Any] = {
    "statements.0.statement_path": ABSENT,
    "customers.1.family_name": "",
    "billing_postcode": "12",
    "customers.0.family_name": "",
    "customers.0.email": "test@provider.example",
    "supply_addresses.0.meter_points.1.meters": [],
    "ledgers.0.transactions_in_open_settlement_period.1.reason": ABSENT,
}


def _check(account: dict[str, Any], **options: Any) -> list[Finding]:
    return check_account(account, profile=Profile.LENIENT, today=TODAY, **options)


def test_findings_are_sorted_by_path() -> None:
    findings = _check(load(_FAULTS))
    assert [finding.attr for finding in findings] == sorted(_FAULTS)


def test_the_order_does_not_depend_on_the_order_of_the_keys() -> None:
    account = load(_FAULTS)
    assert _check(_reverse_keys(account)) == _check(account)


def _reverse_keys(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _reverse_keys(value[key]) for key in reversed(value)}
    return [_reverse_keys(item) for item in value] if isinstance(value, list) else value


def test_findings_in_a_list_are_sorted_by_index_and_not_as_text() -> None:
    customer = {"given_name": "A"}
    findings = _check({**load(), "customers": [{**customer, "email": f"{i}@a.nl"} for i in range(12)]})
    assert [finding.path[1] for finding in findings] == list(range(12))


def test_errors_of_the_schema_are_not_reported_again() -> None:
    account = change(load(), {"customers.0": {}, "ledgers.0.ledger_code": ABSENT})
    assert [finding.attr for finding in _check(account)] == ["customers.0.family_name"]
    assert _check(account, faulty=["customers.0", "ledgers.0.ledger_code"]) == []
    assert len(_check(account, faulty=["customers.01", "customers.0.family", "family_name"])) == 1


def test_an_error_of_the_schema_elsewhere_hides_no_finding() -> None:
    for example in BREAKING:
        account = load(example.changes)
        assert _check(account, faulty=["external_account_number"]) == _check(account), example.code


_HISTORICAL = "ledgers.0.historical_statement_transactions"
_POWER = "supply_addresses.0.meter_points.0"


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
    assert code in [finding.code for finding in _check(account)]
    assert code not in [finding.code for finding in _check(account, faulty=[refused])]


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
    assert check_account(change(load(), changes), profile=Profile.STRICT, today=TODAY) == []


def test_rules_never_raise_if_any_single_value_is_missing() -> None:
    account = load()
    for container, key in places(account):
        if isinstance(container, dict):
            kept = container.pop(key)
            _check(account)
            container[key] = kept


def test_an_empty_account_lacks_only_the_required_fields() -> None:
    findings = check_account({}, profile=Profile.LENIENT, today=TODAY)
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
    assert code not in [finding.code for finding in _check(account)]


def test_checking_changes_nothing_in_the_account() -> None:
    for example in BREAKING:
        account = load(example.changes)
        _check(account)
        assert account == load(example.changes)


def test_a_rule_has_the_name_of_its_code() -> None:
    others = {rule.check.__name__: rule.code for rule in RULES if rule.code != rule.check.__name__}
    assert others == {"foreign_billing_postcode": "invalid_postcode"}


def test_every_module_of_rules_is_in_the_catalogue() -> None:
    [folder] = rules.__path__
    defined = sum(path.read_text().count("\n@rule(") for path in Path(folder).glob("*.py"))
    assert len(RULES) == defined
