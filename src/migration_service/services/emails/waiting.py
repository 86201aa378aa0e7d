"""How many messages to people wait, for those who watch: without the library that sends them."""

from dataclasses import dataclass

from sqlalchemy import text
from sqlalchemy.orm import Session

from migration_service.states import EmailState

_COUNT_WAITING = text(f"""
    SELECT count(*) AS number,
           coalesce(CAST(extract(epoch FROM clock_timestamp() - min(created_at)) AS float), 0) AS seconds,
           max(error) AS error
    FROM (SELECT created_at, error FROM customer_email WHERE state = '{EmailState.PENDING}'
          UNION ALL SELECT created_at, error FROM alert_email WHERE state = '{EmailState.PENDING}') AS waiting
""")


@dataclass(frozen=True, slots=True)
class Waiting:
    """The messages that have not been sent yet."""

    number: int
    #: The age of the oldest, and the last failure of one.
    seconds: float
    error: str | None


def count_waiting(session: Session) -> Waiting:
    """Return how many messages wait, for how long, and why."""
    return Waiting(**session.execute(_COUNT_WAITING).mappings().one())
