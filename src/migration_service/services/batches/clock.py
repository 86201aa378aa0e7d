"""The clock that opens and closes windows: the database's, because all machines share it."""

from datetime import datetime

from sqlalchemy import func, select
from sqlalchemy.orm import Session


def read_clock(session: Session) -> datetime:
    """Return the time, in UTC or another time zone."""
    now: datetime = session.scalars(select(func.clock_timestamp())).one()
    return now
