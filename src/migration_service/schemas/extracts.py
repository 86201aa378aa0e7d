"""The moment at which a supplier extracted what it sends."""

from datetime import UTC, datetime, timedelta

from migration_service.schemas.coded import Messages
from migration_service.schemas.fields import Message, UtcMoment, about

#: By how much the clock of a supplier may be ahead.
_TOLERANCE = timedelta(hours=1)


class ExtractMoment(UtcMoment):
    """When an extract was made, to the second. One in the future would keep out every later extract.

    Answers have no fractions of a second, so that two moments that look the same are the same.
    """

    default_error_messages: Messages = {
        "future": Message("This is in the future. Expected when the extract was made.", "out_of_range")
    }

    def _normal(self, moment: datetime) -> datetime:
        if moment > datetime.now(UTC) + _TOLERANCE:
            raise self.make_error("future")
        return super()._normal(moment).replace(microsecond=0)


def extract_moment() -> ExtractMoment:
    """Return the query parameter."""
    return ExtractMoment(
        metadata=about(
            "When the accounts were extracted from the supplier's system. What is staged of a later extract "
            "is not replaced. Without it, what is staged is always replaced.",
            "2026-03-01T22:00:00Z",
            schema={"type": "string", "format": "date-time"},
        )
    )
