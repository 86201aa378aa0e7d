"""The account payload: the shapes of the specification, and all errors with their paths."""

from typing import Any

from migration_payloads.schemas.account import ACCOUNT_IMPORT
from migration_payloads.schemas.base import find_unknown_fields, load
from migration_payloads.schemas.json import encode_json, parse_json


def _read(payload: dict[str, Any]) -> Any:
    return parse_json(encode_json(payload))


def test_every_error_of_a_payload_is_found_with_its_path() -> None:
    payload = {
        "external_account_number": 5,
        "customers": [
            {"landline": "020 624 1111"},
            {"landline": "12", "email": "x"},
            "not an object",
            {"user_details": [{"namespace": "n", "value": "v"}, {"namespace": "n"}]},
        ],
        "supply_addresses": [{"meter_points": [{"ean": "x", "meters": [{"registers": [{}]}]}]}],
        "ledgers": {"ledger_code": "X"},
    }
    _, errors = load(ACCOUNT_IMPORT, _read(payload))
    assert {(error.code, error.attr) for error in errors} == {
        ("invalid", "external_account_number"),
        ("required", "import_supplier"),
        ("invalid_phone_number", "customers.1.landline"),
        ("invalid_email_address", "customers.1.email"),
        ("not_a_dict", "customers.2"),
        ("required", "customers.3.user_details.1.value"),
        ("invalid_ean", "supply_addresses.0.meter_points.0.ean"),
        ("required", "supply_addresses.0.meter_points.0.supply_type"),
        ("required", "supply_addresses.0.meter_points.0.meters.0.meter_id"),
        ("required", "supply_addresses.0.meter_points.0.meters.0.registers.0.register_id"),
        ("not_a_list", "ledgers"),
    }


def test_valid_values_beside_errors_keep_their_positions() -> None:
    payload = {"customers": ["bad", {"family_name": "Jansen", "email": "bad"}]}
    data, _ = load(ACCOUNT_IMPORT, _read(payload))
    assert data["customers"] == [{}, {"family_name": "Jansen"}]


def test_a_payload_that_is_not_an_object_is_one_error_without_a_path() -> None:
    payloads: list[Any] = [[], "text", 5, None, True]
    for payload in payloads:
        _, errors = load(ACCOUNT_IMPORT, payload)
        assert [(error.code, error.attr) for error in errors] == [("not_a_dict", None)]


def test_unknown_fields_are_dropped_and_can_be_reported() -> None:
    payload = {
        "external_account_number": "1",
        "import_supplier": "S",
        "colour": "red",
        "customers": [{"family_name": "Jansen", "shoe_size": 43}],
    }
    data, errors = load(ACCOUNT_IMPORT, _read(payload))
    assert errors == []
    assert "colour" not in data
    assert data["customers"] == [{"family_name": "Jansen"}]
    assert [error.attr for error in find_unknown_fields(ACCOUNT_IMPORT, payload)] == [
        "colour",
        "customers.0.shoe_size",
    ]


def test_string_numbers_stay_strings_and_amounts_keep_their_digits() -> None:
    payload = parse_json(
        b'{"external_account_number": "1", "import_supplier": "S", "unknown_occupier": "false",'
        b' "supply_addresses": [{"meter_points": [{"ean": "1", "supply_type": "GAS", "agreements": [{'
        b'"supply_type": "GAS", "effective_from": "2025-01-01", "tariff_code": "T",'
        b'"monthly_advance_charge_template": {"total_monthly_advance_amount": "120.50",'
        b'"cost_details": [{"band": "ADVANCE_GRID_FEE", "net_amount": 10.10}]}}]}]}]}'
    )
    data, errors = load(ACCOUNT_IMPORT, payload)
    assert errors == []
    text = encode_json(data)
    assert b'"total_monthly_advance_amount":"120.50"' in text
    assert b'"net_amount":10.10' in text
    assert b'"unknown_occupier":false' in text
