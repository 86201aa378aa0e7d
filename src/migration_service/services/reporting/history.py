"""How many accounts were created on each of the last days, and which codes failed accounts have."""

from datetime import date, timedelta
from typing import NamedTuple
from zoneinfo import ZoneInfo

from sqlalchemy import text
from sqlalchemy.orm import Session

from migration_service.states import BatchMode


class CreatedOnDay(NamedTuple):
    """The accounts that were created on a day."""

    day: date
    accounts: int


def count_created_by_day(
    session: Session, import_supplier_id: int, *, days: int, zone: ZoneInfo
) -> list[CreatedOnDay]:
    """Return how many accounts of a supplier were created on each of the last days, today included.

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
    """Return the codes of the failed lines of a supplier's batches, the most frequent first.

    Batches that create accounts count, and of those the lines that are kept.
    """
    rows = session.execute(_FAILURES, {"import_supplier_id": import_supplier_id, "limit": limit})
    return [(code, number) for code, number in rows]


_TODAY = text("SELECT CAST(now() AT TIME ZONE :zone AS date)")

_CREATED = text("""
    SELECT CAST(account_created_at AT TIME ZONE :zone AS date) AS day, count(*) AS accounts
    FROM account_import_process
    WHERE import_supplier_id = :import_supplier_id
      AND account_created_at >= date_trunc('day', now() AT TIME ZONE :zone) AT TIME ZONE :zone
                                - make_interval(days => CAST(:days AS integer) - 1)
    GROUP BY 1
""")

_FAILURES = text(f"""
    SELECT key, CAST(sum(CAST(value AS bigint)) AS bigint) AS n
    FROM batch JOIN batch_chunk ON batch_chunk.batch_id = batch.id, jsonb_each(error_counts)
    WHERE batch.import_supplier_id = :import_supplier_id AND batch.lines_removed_at IS NULL
      AND batch.mode IN ('{BatchMode.STAGE}', '{BatchMode.IMPORT}')
    GROUP BY key ORDER BY n DESC, key LIMIT :limit
""")
