"""The account as it is read: its fields, its JSON, and what of it is personal."""

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

from migration_payloads.schemas import fields
from migration_payloads.schemas.account import ACCOUNT_IMPORT
from migration_payloads.schemas.base import find_unknown_fields, load
from migration_payloads.schemas.json import encode_json, parse_json
from migration_payloads.schemas.privacy import is_nobodys, walk_fields
from migration_payloads.schemas.vocabulary import SupplyType
from migration_service.schemas import added_data


def _read(payload: dict[str, Any]) -> Any:
    return parse_json(encode_json(payload))


def test_valid_values_beside_errors_keep_their_positions() -> None:
    payload = {"customers": ["bad", {"family_name": "Jansen", "email": "bad"}]}
    data, _ = load(ACCOUNT_IMPORT, _read(payload))
    assert data["customers"] == [{}, {"family_name": "Jansen"}]


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


def test_amounts_are_written_with_all_their_digits() -> None:
    data = {
        "amount": Decimal("12.30"),
        "at": datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
        "on": date(2026, 1, 2),
    }
    assert encode_json(data) == b'{"amount":12.30,"at":"2026-01-02T03:04:05Z","on":"2026-01-02"}'


@pytest.mark.parametrize(
    "schema",
    [
        ACCOUNT_IMPORT,
        added_data.NotesRequestSchema(),
        added_data.TransactionsRequestSchema(),
        added_data.StatementsRequestSchema(),
        added_data.PaymentInstructionRequestSchema(),
    ],
)
def test_each_field_says_whether_it_is_personal(schema: Any) -> None:
    silent = [path for path, it in walk_fields(schema) if getattr(it, "personal", None) is None]
    assert silent == [], "Give these fields personal=True, personal=False or identifying=True."


def test_a_new_text_or_date_has_to_say_it() -> None:
    for kind in (
        fields.Text,
        fields.Identifier,
        fields.Ean,
        fields.Day,
        fields.DocumentPath,
        fields.FreeObject,
    ):
        assert kind("A field.").personal is None


_CODE, _AMOUNT = fields.Identifier(personal=False), fields.Number()


@pytest.mark.parametrize(
    ("field", "values", "expected"),
    [
        (_CODE, ("NL-E-VARIABLE", "1.8.1", "8712423014022", "E1A"), True),
        (
            _CODE,
            ("de heer Jansen", "Jansen", "JANSEN B.V. ", "jansen@x.nl", "ÖZTÜRK", "", 612345678, True),
            False,
        ),
        (_CODE, ("0612345678", "+31612345678", "06-12345678", "TEL.0201234567"), False),
        (fields.Choice(SupplyType), ("GAS",), True),
        (fields.Choice(SupplyType), ("gas", "Jansen", "0612345678", None), False),
        (_AMOUNT, ("1.50", Decimal("1E+2"), -5), True),
        (_AMOUNT, ("tien euro", "TIEN", [1]), False),
        (fields.Day(personal=False), ("2026-01-31", "31-01-2026"), True),
        (fields.Day(personal=False), ("31 januari",), False),
        (fields.Flag(), (True, "yes", 0), True),
        (fields.Flag(), ("Jansen", 5), False),
        (fields.Day(personal=True), ("2026-01-31",), False),
        (fields.Ean(identifying=True), ("871694330222747339",), False),
        (None, ("A",), False),
    ],
)
def test_what_is_surely_nobodys(field: Any, values: tuple[Any, ...], expected: bool) -> None:
    for value in values:
        assert is_nobodys(field, value) is expected, value
