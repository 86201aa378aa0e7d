"""The time at which a supplier extracted its data."""

from datetime import UTC, datetime, timedelta

from migration_payloads.schemas.coded import Messages
from migration_payloads.schemas.fields import Message, UtcMoment

#: How far a supplier's clock may be ahead.
_TOLERANCE = timedelta(hours=1)
#: A time before stands for none, as systems write 0001-01-01, 1900-01-01 and 1970-01-01.
_FIRST = datetime(1990, 1, 1, tzinfo=UTC)


class ExtractMoment(UtcMoment):
    """The time of an extract. A time in the future would block every later extract."""

    default_error_messages: Messages = {
        "future": Message("This is in the future. Expected the time of the extract.", "out_of_range"),
        "placeholder": Message("This is before 1990. Expected the time of the extract.", "out_of_range"),
    }

    def _normal(self, moment: datetime) -> datetime:
        if moment > datetime.now(UTC) + _TOLERANCE:
            raise self.make_error("future")
        if moment < _FIRST:
            raise self.make_error("placeholder")
        return super()._normal(moment)


def extract_moment() -> ExtractMoment:
    """Return the query parameter."""
    return ExtractMoment(
        "When the accounts were extracted from the supplier's system. A staged payload of a later "
        "extract is not replaced. Without it, staged payloads are always replaced.",
        "2026-03-01T22:00:00Z",
        parameter={"type": "string", "format": "date-time"},
    )
