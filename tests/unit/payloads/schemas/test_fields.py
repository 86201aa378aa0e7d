"""Fields of moments, and what is read without a field.

Those of all other kinds are in `tests/transcripts/client/values.md`.
"""

from datetime import UTC, datetime
from typing import Any

import pytest
from marshmallow import Schema

from migration_payloads.errors import RequestFailedValidationError
from migration_payloads.schemas import fields
from migration_payloads.schemas.base import load
from migration_payloads.schemas.identifiers import require_identifier
from migration_payloads.schemas.privacy import has_telephone_number


@pytest.mark.parametrize(
    ("field", "value", "loaded"),
    [
        (fields.UtcMoment(), "2024-01-01T12:00:00Z", datetime(2024, 1, 1, 12, tzinfo=UTC)),
        (fields.UtcMoment(), "2024-01-01T12:00:00+02:00", datetime(2024, 1, 1, 10, tzinfo=UTC)),
        (fields.UtcMoment(), "2024-01-01T12:00:00", None),
        (fields.UtcMoment(), "0001-01-01T00:00:00+14:00", None),
        (fields.LocalMoment(), "2024-01-01T00:00:00", datetime(2024, 1, 1)),
        (fields.LocalMoment(), "2024-01-01T00:00:00Z", None),
        (fields.LocalMoment(), "2024-01-01T25:00:00", None),
    ],
)
def test_a_moment_is_loaded_or_refused_with_its_code(field: Any, value: str, loaded: datetime | None) -> None:
    data, errors = load(Schema.from_dict({"value": field})(), {"value": value})
    assert data.get("value") == loaded
    assert [error.code for error in errors] == ([] if loaded else ["invalid_datetime"])


@pytest.mark.parametrize(
    ("text", "code"),
    [("x" * 128, None), ("x" * 129, "max_length"), ("", "blank"), (" x", "outer_spaces")],
    ids=("128", "129", "none", "space"),
)
def test_an_identifier_of_a_path_has_128_characters_at_most(text: str, code: str | None) -> None:
    if code is None:
        require_identifier(text, "number")
        return
    with pytest.raises(RequestFailedValidationError) as refused:
        require_identifier(text, "number")
    assert [(it.code, it.attr) for it in refused.value.errors] == [(code, "number")]


@pytest.mark.parametrize(
    ("text", "is_one"),
    [
        ("012345678", True),
        ("01234567", False),
        ("06-12.34/56 78", False),
        ("NL/06-12345678", True),
        ("316123456", True),
        ("+3161234", True),
        ("+316123", False),
        ("0-1:24.2.1.255", False),
        ("871685920001232914", False),
    ],
)
def test_digits_are_a_telephone_number_by_how_they_begin_and_how_many_they_are(
    text: str, *, is_one: bool
) -> None:
    assert has_telephone_number(text) == is_one
