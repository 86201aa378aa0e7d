"""Errors and warnings of a batch for the console: by code, then by path, then by line."""

from dataclasses import dataclass
from typing import Any, NamedTuple
from uuid import UUID

from sqlalchemy import Text, bindparam, func, select, text, union_all
from sqlalchemy.orm import Session

from migration_payloads.schemas.json import parse_json
from migration_service.db.pieces import DECODED
from migration_service.errors import ParseError
from migration_service.models import Batch, BatchLine
from migration_service.services.batches.results import line_results
from migration_service.services.batches.results.counts import LINES_OF_CHUNK
from migration_service.states import BatchKind, LineStatus

#: The findings of the lines of a page, after which it ends.
_MOST_FINDINGS = 2_000
_COLUMNS = line_results.COLUMNS[:6]


@dataclass(frozen=True, slots=True)
class ShownLine:
    """A line of a batch with its outcome."""

    line_number: int
    external_account_number: str | None
    status: str
    service_account_number: str | None
    errors: list[dict[str, Any]]
    warnings: list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class SentLine:
    """A line with its payload, as sent or as staged, or with its text if that is not JSON."""

    line: ShownLine
    payload: Any
    text: str | None


class FoundPath(NamedTuple):
    """A path with errors or warnings of a code, its lines, and the detail of one of them."""

    path: str | None
    lines: int
    detail: str


def count_paths(session: Session, batch_id: UUID, code: str, *, warnings: bool = False) -> list[FoundPath]:
    """Return the paths at which lines have an error (or a warning) of this code, the most frequent first.

    `*` stands for any index.
    """
    rows = session.execute(_PATHS, {"batch_id": batch_id, "code": code, "warnings": warnings})
    return [FoundPath(*row) for row in rows]


def count_codes(session: Session, batch_id: UUID, wanted: line_results.ResultFilter) -> list[tuple[str, int]]:
    """Return the error codes of the matching lines, the most frequent first, with their lines."""
    item = func.jsonb_array_elements(BatchLine.errors).column_valued("item", joins_implicitly=True)
    code, lines = item.op("->>")("code"), func.count(BatchLine.line_number.distinct())
    found = select(code, lines).where(BatchLine.batch_id == batch_id, wanted.condition())
    rows = session.execute(found.group_by(code).order_by(lines.desc(), code))
    return [(code, lines) for code, lines in rows if wanted.code in (None, code)]


def list_lines(
    session: Session, batch_id: UUID, wanted: line_results.ResultFilter, *, after: int = 0, limit: int = 50
) -> tuple[list[ShownLine], bool]:
    """Return the matching lines of a batch after line `after`, in order, and whether there may be more.

    They are fewer than `limit` if they have very many findings.
    """
    # Lines of added data are not in the order of their chunks.
    of_accounts = session.get_one(Batch, batch_id).kind == BatchKind.ACCOUNTS
    chunks = wanted.chunk_condition() if of_accounts else None
    lines = line_results.Lines(batch_id, wanted.condition(), _COLUMNS, chunks)
    found: list[ShownLine] = []
    while rows := lines.read_in(session, found[-1].line_number if found else after):
        found += map(_shown, rows)
        if len(found) > limit or sum(len(it.errors) + len(it.warnings) for it in found) > _MOST_FINDINGS:
            break
    return found[:limit], bool(rows)


def find_line(session: Session, batch_id: UUID, line_number: int) -> SentLine | None:
    """Return a line of a batch with its payload, or None if there is no such line."""
    statement = line_results.select_lines(batch_id, *_COLUMNS, *line_results.TEXT).where(
        BatchLine.line_number == line_number
    )
    row = session.execute(statement).one_or_none()
    if row is None:
        return None
    sent = line_results.text_of(row.payload, row.staged)
    try:
        with DECODED.holding(len(sent or b"")):
            return SentLine(_shown(row), parse_json(sent) if sent is not None else None, None)
    except ParseError:
        return SentLine(_shown(row), None, (sent or b"").decode(errors="replace"))


def find_neighbours(
    session: Session, batch_id: UUID, line_number: int, status: LineStatus
) -> tuple[int | None, int | None]:
    """Return the numbers of the lines before and after a line of a batch of accounts with the same status."""
    values = {"batch_id": batch_id, "line_number": line_number, "status": status}
    before, after = session.execute(_NEIGHBOURS, values).one()
    return before, after


def list_lines_of_account(
    session: Session, import_supplier_id: int, external_account_number: str, limit: int = 20
) -> list[dict[str, Any]]:
    """Return all lines of batches with this account, newest first, with their outcomes."""
    batch = (Batch.id.label("batch_id"), Batch.name.label("batch_name"), Batch.kind, Batch.mode)
    found = (
        select(*batch, Batch.created_at, *_COLUMNS)
        .join(Batch, Batch.id == BatchLine.batch_id)
        .where(
            Batch.import_supplier_id == import_supplier_id,
            BatchLine.external_account_number == external_account_number,
        )
        .order_by(Batch.id.desc(), BatchLine.line_number)
        .limit(limit)
    )
    # Two statements, because the index by account covers only lines of accounts (`chunk_line` is null).
    of_accounts = BatchLine.chunk_line.is_(None)
    parts = (select(found.where(is_it).subquery()) for is_it in (of_accounts, ~of_accounts))
    both = union_all(*parts).subquery()
    newest = select(both).order_by(both.c.batch_id.desc(), both.c.line_number).limit(limit)
    return [
        {**row, "errors": row["errors"] or [], "warnings": row["warnings"] or []}
        for row in session.execute(newest).mappings()
    ]


def _shown(row: Any) -> ShownLine:
    number, account, status, service_number, errors, warnings = row[:6]
    return ShownLine(number, account, status, service_number, errors or [], warnings or [])


# Only the nearest chunks with the status are read: the line's own may have no other.
_NEIGHBOURS = text("""
    SELECT (SELECT max(line.line_number) FROM (
                SELECT * FROM batch_chunk WHERE batch_id = :batch_id AND first_line < :line_number
                  AND counts ? :status ORDER BY first_line DESC LIMIT 2) AS chunk
            CROSS JOIN LATERAL (
                SELECT * FROM batch_line WHERE batch_id = :batch_id AND status = :status
                  AND line_number BETWEEN chunk.first_line AND least(chunk.last_line, :line_number - 1)
                OFFSET 0) AS line),
           (SELECT min(line.line_number) FROM (
                SELECT * FROM batch_chunk WHERE batch_id = :batch_id AND last_line > :line_number
                  AND counts ? :status ORDER BY first_line LIMIT 2) AS chunk
            CROSS JOIN LATERAL (
                SELECT * FROM batch_line WHERE batch_id = :batch_id AND status = :status
                  AND line_number BETWEEN greatest(chunk.first_line, :line_number + 1) AND chunk.last_line
                OFFSET 0) AS line)
""")

# Only chunks with the code are read.
_PATHS = text(f"""
    SELECT regexp_replace(finding ->> 'attr', '(^|[.])[0-9]+(?=[.]|$)', '\\1*', 'g') AS path,
           count(DISTINCT line_number) AS lines, min(finding ->> 'detail') AS detail
    FROM batch_chunk CROSS JOIN LATERAL {LINES_OF_CHUNK} AS line
    CROSS JOIN LATERAL jsonb_array_elements(
        CASE WHEN :warnings THEN line.warnings ELSE line.errors END) AS finding
    WHERE batch_chunk.batch_id = :batch_id AND finding ->> 'code' = :code
      AND CASE WHEN :warnings THEN batch_chunk.warning_counts ELSE batch_chunk.error_counts END ? :code
    GROUP BY 1 ORDER BY 2 DESC, 1
    LIMIT 100
""").bindparams(bindparam("code", type_=Text))
