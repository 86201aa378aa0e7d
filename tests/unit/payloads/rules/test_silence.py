"""A rule finds nothing if a value that it compares with was already refused."""

import json
from copy import deepcopy
from typing import Any

import pytest

from migration_payloads.profile import Profile
from migration_payloads.schemas.json import encode_json, parse_json
from migration_payloads.validation import validate_account
from migration_service_local.samples import generate_accounts
from support.mutations import TODAY

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
