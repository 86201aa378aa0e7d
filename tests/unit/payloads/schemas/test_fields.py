"""Fields of moments. Those of all other kinds are in `tests/transcripts/client/values.md`."""

from datetime import UTC, datetime
from typing import Any

import pytest
from marshmallow import Schema

from migration_payloads.schemas import fields
from migration_payloads.schemas.base import load


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
