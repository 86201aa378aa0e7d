"""JSON is read exactly, or refused with a reason."""

import gzip
from datetime import UTC, date, datetime
from decimal import Decimal

import pytest

from migration_payloads.schemas.json import encode_json, parse_json
from migration_service.errors import ParseError


@pytest.mark.parametrize(
    ("body", "part_of_detail"),
    [
        (b"", "The body is empty."),
        (b"\xef\xbb\xbf \n", "The body is empty."),
        (b"{", "not valid JSON"),
        (b'{"a": 1,}', "not valid JSON"),
        (b"[1, 2", "not valid JSON"),
        (b"{'a': 1}", "not valid JSON"),
        (b'{"a": NaN}', "NaN"),
        (b'{"a": Infinity}', "Infinity"),
        (b'{"a": -Infinity}', "-Infinity"),
        (b'{"amount": 1, "amount": 2}', "'amount' occurs twice"),
        (b'[{"x": {"y": 1, "z": 2, "y": 3}}]', "'y' occurs twice"),
        (b'"\xff"', "byte 0xFF at position 1"),
        ('{"a": 1}'.encode("utf-16"), "The body is text in UTF-16."),
        (gzip.compress(b"{}", mtime=0), "The body is gzip data."),
        (b'{"a": 1}\n{"a": 2}', "Other text follows the JSON value, at line 2 column 1."),
        (b'"\\ud800"', "surrogate"),
        (b'{"\\udfff": 1}', "surrogate"),
        (b"{\xef\xbb\xbf}", "not valid JSON"),
        (b"{}\xef\xbb\xbf", "Other text follows"),
    ],
)
def test_invalid_json_is_refused_with_the_reason(body: bytes, part_of_detail: str) -> None:
    with pytest.raises(ParseError) as caught:
        parse_json(body)
    assert part_of_detail in caught.value.detail
    assert [item.code for item in caught.value.errors] == ["parse_error"]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("12.30", Decimal("12.30")),
        ("0.1", Decimal("0.1")),
        ("123456789012.0000000001", Decimal("123456789012.0000000001")),
        ("-7", -7),
        ('"\\ud83d\\ude00"', "\N{GRINNING FACE}"),
    ],
)
def test_numbers_and_text_are_read_exactly(text: str, value: object) -> None:
    assert parse_json(text.encode()) == value
    assert str(parse_json(text.encode())) == str(value)


def test_amounts_are_written_with_all_their_digits() -> None:
    data = {
        "amount": Decimal("12.30"),
        "at": datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
        "on": date(2026, 1, 2),
    }
    assert encode_json(data) == b'{"amount":12.30,"at":"2026-01-02T03:04:05Z","on":"2026-01-02"}'
