"""Numbers of accounts created on each of the last days, and of failures by code."""

from datetime import date, timedelta
from typing import NamedTuple
from zoneinfo import ZoneInfo

from sqlalchemy import text
from sqlalchemy.orm import Session

from migration_service.errors import DuplicateLineError
from migration_service.states import BatchKind, BatchMode, LineStatus


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
    """Return the error codes of a supplier's currently refused lines, the most frequent first.

    The newest failed line of each account counts, in batches that stage or create accounts, unless a later
    line has settled the account. Only chunks with failed lines are read.
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
    WITH failed AS (
        SELECT DISTINCT ON (line.external_account_number,
                            CASE WHEN line.external_account_number IS NULL THEN line.batch_id END,
                            CASE WHEN line.external_account_number IS NULL THEN line.line_number END)
               line.batch_id, line.line_number, line.errors
        FROM batch
        JOIN batch_chunk AS chunk ON chunk.batch_id = batch.id
         AND CAST(chunk.counts ->> '{LineStatus.FAILED}' AS bigint) > 0
        JOIN batch_line AS line ON line.batch_id = batch.id
         AND line.line_number BETWEEN chunk.first_line AND chunk.last_line
        WHERE batch.import_supplier_id = :import_supplier_id AND batch.kind = '{BatchKind.ACCOUNTS}'
          AND batch.mode IN ('{BatchMode.STAGE}', '{BatchMode.IMPORT}')
          AND line.status = '{LineStatus.FAILED}'
          AND NOT line.errors @> '[{{"code": "{DuplicateLineError.code}"}}]'
          AND NOT EXISTS (
              SELECT FROM account_import_process AS process
              WHERE process.import_supplier_id = :import_supplier_id
                AND process.external_account_number = line.external_account_number)
        ORDER BY line.external_account_number,
                 CASE WHEN line.external_account_number IS NULL THEN line.batch_id END,
                 CASE WHEN line.external_account_number IS NULL THEN line.line_number END,
                 line.batch_id DESC, line.line_number
    )
    SELECT item ->> 'code' AS code, count(DISTINCT (batch_id, line_number)) AS n
    FROM failed, jsonb_array_elements(errors) AS item
    GROUP BY code ORDER BY n DESC, code LIMIT :limit
""")
