"""Each kind of field: the values that it loads, and the codes with which it refuses others."""

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from marshmallow import Schema

from migration_payloads.schemas import fields
from migration_payloads.schemas.base import Fields, load
from migration_payloads.schemas.vocabulary import Reason, SupplyType


def _load(field: Any, value: Any) -> tuple[Any, list[str]]:
    data, errors = load(Schema.from_dict({"value": field})(), {"value": value})
    return data.get("value"), [error.code for error in errors]


@pytest.mark.parametrize(
    ("field", "value", "loaded"),
    [
        (fields.Text(), "x", "x"),
        (fields.Text(blank=True), "", ""),
        (fields.Text(max_length=3), "äöü", "äöü"),
        (fields.Identifier(), "A/1 ü%", "A/1 ü%"),
        (fields.Choice(SupplyType), "GAS", "GAS"),
        (fields.Code(), "NOT_SEEN_2", "NOT_SEEN_2"),
        (fields.Flag(), "false", False),
        (fields.Flag(), True, True),
        (fields.Flag(), "YES", True),
        (fields.Flag(), "oFF", False),
        (fields.Flag(), "1", True),
        (fields.Flag(), 0, False),
        (fields.Flag(), Decimal("1.0"), True),
        (fields.Day(), "2024-02-29", date(2024, 2, 29)),
        (fields.UtcMoment(), "2024-01-01T12:00:00Z", datetime(2024, 1, 1, 12, tzinfo=UTC)),
        (fields.UtcMoment(), "2024-01-01T12:00:00+02:00", datetime(2024, 1, 1, 10, tzinfo=UTC)),
        (fields.LocalMoment(), "2024-01-01T00:00:00", datetime(2024, 1, 1)),
        (fields.Number(), 5, Decimal(5)),
        (fields.Number(), Decimal("12.30"), Decimal("12.30")),
        (fields.Number(), "-12.30", Decimal("-12.30")),
        (fields.Number(), Decimal("1E+3"), Decimal("1E+3")),
        (fields.NumberText(), "12.30", "12.30"),
        (fields.NumberText(), Decimal("12.30"), "12.30"),
        (fields.WholeNumber(), 7, 7),
        (fields.WholeNumber(), Decimal("1.0"), 1),
        (fields.WholeNumber(), Decimal("1E+3"), 1000),
        (fields.Number(), Decimal("0E-20000"), Decimal(0)),
        (fields.Number(), Decimal("0E+9"), Decimal(0)),
        (fields.Number(), Decimal("-0.00"), Decimal("0.00")),
        (fields.Number(), Decimal("1.50000000000000"), Decimal("1.5000000000")),
        (fields.NumberText(), Decimal("0E-20000"), "0"),
        (fields.EmailAddress(), "", ""),
        (fields.OpenChoice(Reason), "GOODWILL", "GOODWILL"),
        (fields.DocumentPath(), "/contracts/a.pdf", "/contracts/a.pdf"),
        (fields.NormalIdentifier(), "A/1 é%", "A/1 é%"),
        (fields.NormalIdentifier(), "ЯБВ 北京", "ЯБВ 北京"),
        (fields.PhoneNumber(), "", ""),
        (fields.PhoneNumber(), "+31612345678", "+31612345678"),
        (fields.PhoneNumber(), "020 624 1111", "020 624 1111"),
        (fields.PhoneNumber(), "+49 30 901820", "+49 30 901820"),
        (fields.EmailAddress(), "a.b+c@mail.example", "a.b+c@mail.example"),
        (fields.Ean(), "871685920001232914", "871685920001232914"),
        (fields.DocumentPath(), "contracts/2026/a b.pdf", "contracts/2026/a b.pdf"),
        (fields.FreeObject(), {"any": ["thing"]}, {"any": ["thing"]}),
        (fields.Values(fields.Ean()), ["1", "2"], ["1", "2"]),
    ],
    ids=lambda it: str(it)[:40],
)
def test_a_valid_value_is_loaded(field: Any, value: Any, loaded: Any) -> None:
    result, codes = _load(field, value)
    assert codes == []
    assert result == loaded
    assert type(result) is type(loaded)
    assert str(result) == str(loaded)


@pytest.mark.parametrize(
    ("field", "value", "code"),
    [
        (fields.Text(), None, "null"),
        (fields.Text(), 5, "invalid"),
        (fields.Text(), True, "invalid"),
        (fields.Text(required=True), "", "blank"),
        (fields.Text(), "   ", "blank"),
        (fields.Text(blank=True), "\t ", "blank"),
        (fields.Text(), "\u200b \u2800\u3164", "blank"),
        (fields.Text(), "a\0b", "invalid_characters"),
        (fields.Text(max_length=3), "abcd", "max_length"),
        (fields.Identifier(), "   ", "blank"),
        (fields.Identifier(), "a\nb", "invalid_characters"),
        (fields.Identifier(), "x" * 129, "max_length"),
        (fields.Choice(SupplyType), "WATER", "invalid_choice"),
        (fields.Choice(SupplyType), 1, "invalid"),
        (fields.Choice(SupplyType), [], "invalid"),
        (fields.Code(), "smart", "invalid_choice"),
        (fields.Flag(), "maybe", "invalid"),
        (fields.Flag(), "", "invalid"),
        (fields.Flag(), 2, "invalid"),
        (fields.Flag(), Decimal("0.5"), "invalid"),
        (fields.Flag(), [], "invalid"),
        (fields.Day(), "2023-02-29", "invalid_date"),
        (fields.Day(), "2024-1-1", "invalid_date"),
        (fields.Day(), "20240101", "invalid_date"),
        (fields.Day(), "2024-01-01T00:00:00Z", "invalid_date"),
        (fields.Day(), "２０２４-01-01", "invalid_date"),  # noqa: RUF001
        (fields.Day(), 20240101, "invalid_date"),
        (fields.UtcMoment(), "2024-01-01T12:00:00", "invalid_datetime"),
        (fields.UtcMoment(), "0001-01-01T00:00:00+14:00", "invalid_datetime"),
        (fields.LocalMoment(), "2024-01-01T00:00:00Z", "invalid_datetime"),
        (fields.LocalMoment(), "2024-01-01T25:00:00", "invalid_datetime"),
        (fields.Number(), True, "invalid"),
        (fields.Number(), "", "invalid"),
        (fields.Number(), "1e3", "invalid"),
        (fields.Number(), "NaN", "invalid"),
        (fields.Number(), "1,50", "invalid"),
        (fields.Number(), Decimal("1E+400"), "out_of_range"),
        (fields.Number(), 10**12, "out_of_range"),
        (fields.Number(), Decimal("0.00000000001"), "out_of_range"),
        (fields.NumberText(), "twelve", "invalid"),
        (fields.WholeNumber(), Decimal("1.5"), "invalid"),
        (fields.WholeNumber(), False, "invalid"),
        (fields.WholeNumber(), 2**31, "out_of_range"),
        (fields.PhoneNumber(), "12345", "invalid_phone_number"),
        (fields.PhoneNumber(), "+31 6 1234", "invalid_phone_number"),
        (fields.PhoneNumber(), "not a number", "invalid_phone_number"),
        (fields.EmailAddress(), "nobody", "invalid_email_address"),
        (fields.EmailAddress(), "a@b", "invalid_email_address"),
        (fields.EmailAddress(), "a b@mail.example", "invalid_email_address"),
        (fields.Ean(), "87A", "invalid_ean"),
        (fields.Ean(), "8716859200012329140", "invalid_ean"),
        (fields.DocumentPath(), "//etc/passwd", "invalid_document_path"),
        (fields.DocumentPath(), "/", "invalid_document_path"),
        (fields.DocumentPath(), "/../b.pdf", "invalid_document_path"),
        (fields.OpenChoice(Reason), "in words", "invalid_choice"),
        (fields.NormalIdentifier(), " A1", "outer_spaces"),
        (fields.NormalIdentifier(), "A1\u2003", "outer_spaces"),
        (fields.NormalIdentifier(), "A\u0301", "not_normalised"),
        (fields.NormalIdentifier(), "A\uff11", "compatibility_characters"),
        (fields.NormalIdentifier(), "A\u0661", "compatibility_characters"),
        (fields.NormalIdentifier(), "A\u00a01", "compatibility_characters"),
        (fields.NormalIdentifier(), "A\u22121", "compatibility_characters"),
        (fields.NormalIdentifier(), "A\ufffd1", "invalid_characters"),
        (fields.NormalIdentifier(), "Caf\u00c3\u00a9-1", "invalid_characters"),
        (fields.NormalIdentifier(), "M\u00c3\u00bcller", "invalid_characters"),
        (fields.EmailAddress(), "anna@de\u2010vries.example", "invalid_email_address"),
        (fields.NormalIdentifier(), "A\u200b1", "invisible_characters"),
        (fields.NormalIdentifier(), "A\u034f1", "invisible_characters"),
        (fields.NormalIdentifier(), "A\ufe0f1", "invisible_characters"),
        (fields.NormalIdentifier(), "A\u202e1", "bidirectional_characters"),
        (fields.NormalIdentifier(), "A\t1", "invalid_characters"),
        (fields.NormalIdentifier(), "A\ue0001", "invalid_characters"),
        (fields.NormalIdentifier(), "x" * 129, "max_length"),
        (fields.Values(fields.Ean()), ["1", ""], "blank"),
        (fields.DocumentPath(), "a/../b.pdf", "invalid_document_path"),
        (fields.DocumentPath(), "a//b.pdf", "invalid_document_path"),
        (fields.DocumentPath(), "a\\b.pdf", "invalid_document_path"),
        (fields.DocumentPath(), "https://elsewhere.example/a", "invalid_document_path"),
        (fields.DocumentPath(), "a\nb.pdf", "invalid_document_path"),
        (fields.DocumentPath(), "a.pdf ", "invalid_document_path"),
        (fields.DocumentPath(), "/\u00a0a.pdf", "invalid_document_path"),
        (fields.DocumentPath(), "x" * 1025, "max_length"),
        (fields.FreeObject(), [], "not_a_dict"),
        (fields.FreeObject(), {"a": ["\0"]}, "invalid_characters"),
        (fields.Values(fields.Ean()), "1", "not_a_list"),
        (fields.Objects(Schema), {}, "not_a_list"),
        (fields.Objects(Schema), None, "null"),
        (fields.Objects(Schema, empty=False), [], "empty"),
        (fields.Object(Fields), [], "not_a_dict"),
    ],
    ids=lambda it: str(it)[:40],
)
def test_an_invalid_value_is_refused_with_its_code(field: Any, value: Any, code: str) -> None:
    assert _load(field, value)[1] == [code]


def test_a_missing_required_field_has_its_own_error() -> None:
    _, errors = load(Schema.from_dict({"value": fields.Text(required=True)})(), {})
    assert [(error.code, error.attr) for error in errors] == [("required", "value")]


@pytest.mark.parametrize("field", [fields.Text(), fields.Identifier(), fields.Code(), fields.DocumentPath()])
def test_an_empty_optional_text_counts_as_absent(field: Any) -> None:
    data, errors = load(Schema.from_dict({"value": field})(), {"value": ""})
    assert (data, errors) == ({}, [])


def _detail(field: Any, value: Any) -> str:
    [error] = load(Schema.from_dict({"value": field})(), {"value": value})[1]
    return error.detail


@pytest.mark.parametrize(
    ("field", "value", "part"),
    [
        (fields.Number(), "twelve", "'twelve' is not a number"),
        (fields.Number(), Decimal("1E+30"), "1E+30 has more than 12 digits"),
        (fields.Day(), "1-1-2026", "'1-1-2026' is not a valid date"),
        (fields.Choice(SupplyType), "WATER", "'WATER' is not one of: ELECTRICITY, GAS"),
        (fields.Text(), 5, "This is a number, not text"),
        (fields.Objects(Schema), "x", "This is text, not a list of objects"),
        (fields.Object(Fields), None, "may not be null"),
        (fields.Ean(), "8\u202e7", "'8\\u202e7' is not an EAN"),
        (fields.NormalIdentifier(), "A\uff11", "U+FF11 FULLWIDTH DIGIT ONE"),
        (fields.Code(), "y" * 64, "'" + "y" * 37 + "...' is not a code"),
    ],
)
def test_a_message_shows_the_value_that_was_found(field: Any, value: Any, part: str) -> None:
    assert part in _detail(field, value)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        (fields.PhoneNumber(), "0612"),
        (fields.EmailAddress(), "jansen(at)mail"),
        (fields.Day(personal=True), "31-12-1980"),
        (fields.Text(personal=True, max_length=3), "Jansen"),
    ],
)
def test_a_message_never_repeats_personal_data(field: Any, value: str) -> None:
    assert value not in _detail(field, value)
