"""Numbers of accounts created on each of the last days, and of failures by code."""

from datetime import date, timedelta
from typing import NamedTuple
from zoneinfo import ZoneInfo

from sqlalchemy import text
from sqlalchemy.orm import Session

from migration_service.services.reconciliation.submitted import REFUSED_BY_CODE


class CreatedOnDay(NamedTuple):
    """The number of accounts created on a day."""

    day: date
    accounts: int


def count_created_by_day(
    session: Session, import_supplier_id: int, *, days: int, zone: ZoneInfo
) -> list[CreatedOnDay]:
    """Return the number of a supplier's accounts created on each of the last days, including today.

    This reads all accounts of the supplier, which takes a second if there are a million.
    """
    values = {"import_supplier_id": import_supplier_id, "days": days, "zone": str(zone)}
    rows = session.execute(_CREATED, values).all()
    counted = {row.day: row.accounts for row in rows}
    today = session.execute(_TODAY, {"zone": str(zone)}).scalar_one()
    wanted = [today - timedelta(days=days - 1 - index) for index in range(days)]
    return [CreatedOnDay(day, counted.get(day, 0)) for day in wanted]


def count_failures_by_code(
    session: Session, import_supplier_id: int, *, limit: int = 10
) -> list[tuple[str, int]]:
    """Return the error codes of what is refused now and not acknowledged, the most frequent first.

    These are lines of which nothing is staged, and newer versions of accounts.
    """
    values = {"import_supplier_id": import_supplier_id, "batch_id": None, "examples": 0, "limit": limit}
    return [(row.code, row.lines) for row in session.execute(REFUSED_BY_CODE, values)]


_TODAY = text("SELECT CAST(now() AT TIME ZONE :zone AS date)")

_CREATED = text("""
    SELECT CAST(account_created_at AT TIME ZONE :zone AS date) AS day, count(*) AS accounts
    FROM account_import_process
    WHERE import_supplier_id = :import_supplier_id
      AND account_created_at >= date_trunc('day', now() AT TIME ZONE :zone) AT TIME ZONE :zone
                                - make_interval(days => CAST(:days AS integer) - 1)
    GROUP BY 1
""")
