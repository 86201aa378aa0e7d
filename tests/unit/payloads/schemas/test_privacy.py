"""Each field says what its values are to a person, and which values are surely nobody's."""

from decimal import Decimal
from typing import Any

import pytest

from migration_payloads.schemas import fields
from migration_payloads.schemas.account import ACCOUNT_IMPORT
from migration_payloads.schemas.privacy import is_nobodys, walk_fields
from migration_payloads.schemas.vocabulary import SupplyType
from migration_service.schemas import added_data

_SCHEMAS = [
    ACCOUNT_IMPORT,
    added_data.NotesRequestSchema(),
    added_data.TransactionsRequestSchema(),
    added_data.StatementsRequestSchema(),
    added_data.PaymentInstructionRequestSchema(),
]


@pytest.mark.parametrize("schema", _SCHEMAS)
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
