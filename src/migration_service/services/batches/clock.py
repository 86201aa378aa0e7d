"""The clock by which windows open and close: the database's, which is one for all machines."""

from datetime import datetime

from sqlalchemy import func, select
from sqlalchemy.orm import Session


def read_clock(session: Session) -> datetime:
    """Return the time, in UTC or with another offset."""
    now: datetime = session.scalars(select(func.clock_timestamp())).one()
    return now
