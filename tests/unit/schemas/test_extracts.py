"""The time of an extract, by a supplier's clock that may be ahead."""

from datetime import UTC, datetime, timedelta

import pytest
from marshmallow import ValidationError

from migration_payloads.moments import write_moment
from migration_service.schemas.extracts import extract_moment


def test_the_clock_of_a_supplier_may_be_an_hour_ahead() -> None:
    field, now = extract_moment(), datetime.now(UTC).replace(microsecond=0)
    ahead = now + timedelta(minutes=59)
    assert field.deserialize(write_moment(ahead)) == ahead
    with pytest.raises(ValidationError, match="This is in the future"):
        field.deserialize(write_moment(now + timedelta(minutes=62)))
