"""The trend of a supplier's rehearsals: the failed lines of each batch, and their error codes."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.orm import Session

from migration_service.states import BatchKind, BatchSource, LineStatus

#: Codes that are named of each batch.
_CODES = 3


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """A batch from a file of accounts, as one step towards a book without errors."""

    batch_id: UUID
    name: str | None
    mode: str
    created_at: datetime
    lines: int
    #: The numbers of lines with an outcome, and of failed lines.
    done: int
    failed: int
    #: The most frequent error codes with their numbers of lines, and the number of all codes.
    codes: list[tuple[str, int]]
    all_codes: int


def read_trend(session: Session, import_supplier_id: int, *, limit: int) -> list[Rehearsal]:
    """Return the newest batches from files of accounts, in chronological order."""
    rows = session.execute(
        _TREND, {"import_supplier_id": import_supplier_id, "limit": limit, "codes": _CODES}
    )
    return [
        Rehearsal(
            row.id,
            row.name,
            row.mode,
            row.created_at,
            row.lines,
            row.done,
            row.failed,
            [(code, lines) for code, lines in row.codes or ()],
            row.all_codes,
        )
        for row in rows
    ]


_OPEN = ", ".join(f"'{status}'" for status in LineStatus if status.is_open)
_TREND = text(f"""
    SELECT batch.id, coalesce(batch.name, batch.file_name) AS name, batch.mode, batch.created_at, batch.lines,
           counted.done, counted.failed, found.codes, found.all_codes
    FROM (SELECT * FROM batch
          WHERE import_supplier_id = :import_supplier_id AND kind = '{BatchKind.ACCOUNTS}'
            AND source = '{BatchSource.UPLOAD}'
          ORDER BY id DESC LIMIT :limit) AS batch,
    LATERAL (
        SELECT CAST(coalesce(sum(n) FILTER (WHERE status NOT IN ({_OPEN})), 0) AS bigint) AS done,
               CAST(coalesce(sum(n) FILTER (WHERE status = '{LineStatus.FAILED}'), 0) AS bigint) AS failed
        FROM batch_chunk, LATERAL (
            SELECT key AS status, CAST(value AS bigint) AS n FROM jsonb_each_text(counts)) AS line
        WHERE batch_id = batch.id) AS counted,
    LATERAL (
        SELECT count(*) AS all_codes,
               jsonb_agg(jsonb_build_array(code, lines) ORDER BY lines DESC, code)
                   FILTER (WHERE place <= :codes) AS codes
        FROM (SELECT key AS code, sum(CAST(value AS bigint)) AS lines,
                     row_number() OVER (ORDER BY sum(CAST(value AS bigint)) DESC, key) AS place
              FROM batch_chunk, jsonb_each_text(error_counts) WHERE batch_id = batch.id GROUP BY key) AS code
    ) AS found
    ORDER BY batch.id
""")
