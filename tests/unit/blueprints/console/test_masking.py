"""What of a payload is masked."""

import pytest

from migration_service.blueprints.console.masking import MASK, is_personal, mask
from migration_service.blueprints.console.payload_view import view_payload


def test_personal_values_are_masked_and_numbers_stay() -> None:
    payload = {
        "external_account_number": "7",
        "billing_address1": "Singel 1",
        "billing_address2": "",
        "customers": [{"family_name": "Jansen", "user_details": [{"namespace": "iban", "value": "NL00"}]}],
        "supply_addresses": [{"meter_points": [{"ean": "871"}]}],
    }
    assert mask(payload) == {
        "external_account_number": "7",
        "billing_address1": MASK,
        "billing_address2": "",
        "customers": [{"family_name": MASK, "user_details": [{"namespace": "iban", "value": MASK}]}],
        "supply_addresses": [{"meter_points": [{"ean": "871"}]}],
    }


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("customers.1.landline", True),
        ("customers.*.user_details.0.value", True),
        ("supply_addresses.0.supply_postcode", True),
        ("ledgers.0.ledger_code", False),
        ("supply_addresses.0.meter_points.0.ean", False),
        ("", False),
    ],
)
def test_whether_a_path_is_about_a_person(path: str, expected: bool) -> None:
    assert is_personal(path) is expected


def test_the_place_of_a_finding_is_open_and_a_missing_field_has_its_place() -> None:
    payload = {"customers": [{"given_name": "A"}], "ledgers": [{"ledger_code": "X"}]}
    finding = {"code": "required", "attr": "customers.0.family_name", "detail": "Missing."}
    root = view_payload(payload, [(finding, "error")])
    customers, ledgers = root.below
    assert customers.is_open
    assert not ledgers.is_open
    missing = customers.below[0].below[1]
    assert (missing.name, missing.text, missing.findings) == ("family_name", "", [("required", "error")])
