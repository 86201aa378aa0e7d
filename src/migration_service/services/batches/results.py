"""The results of a batch, line by line, streamed: as NDJSON or CSV."""

import csv
import io
from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import Any
from uuid import UUID

from sqlalchemy import bindparam, select
from sqlalchemy.orm import Session, sessionmaker

from migration_service.models import BatchLine
from migration_service.schemas.json import encode_json
from migration_service.states import LineStatus

#: Lines that are read from the database, and written, at once.
_PIECE = 1_000
_COLUMNS = (
    BatchLine.line_number,
    BatchLine.external_account_number,
    BatchLine.status,
    BatchLine.service_account_number,
    BatchLine.errors,
    BatchLine.warnings,
)
_NAMES = tuple(column.key for column in _COLUMNS)


class ResultFormat(StrEnum):
    """How results are written."""

    #: One JSON object a line.
    NDJSON = "ndjson"
    #: With a heading; errors and warnings as `code at path` each, and with their details.
    CSV = "csv"


def stream_results(
    sessions: sessionmaker[Session],
    batch_id: UUID,
    result_format: ResultFormat,
    *,
    status: LineStatus | None = None,
) -> Iterator[bytes]:
    """The lines of a batch in their order, only those in `status` where it is given, in pieces.

    Each piece is a transaction of its own: a slow reader holds none open.
    """
    pieces = _read(sessions, batch_id, status)
    return _ndjson(pieces) if result_format is ResultFormat.NDJSON else _csv(pieces)


def _read(
    sessions: sessionmaker[Session], batch_id: UUID, status: LineStatus | None
) -> Iterator[list[dict[str, Any]]]:
    statement = (
        select(*_COLUMNS)
        .where(BatchLine.batch_id == batch_id, BatchLine.line_number > bindparam("after"))
        .order_by(BatchLine.line_number)
        .limit(_PIECE)
    )
    if status is not None:
        statement = statement.where(BatchLine.status == status)
    after = 0
    while True:
        with sessions.begin() as session:
            rows = session.execute(statement, {"after": after}).all()
        if not rows:
            return
        after = rows[-1].line_number
        yield [dict(zip(_NAMES, row, strict=True)) for row in rows]


def _ndjson(pieces: Iterable[list[dict[str, Any]]]) -> Iterator[bytes]:
    for piece in pieces:
        yield b"".join(
            encode_json({**line, "errors": line["errors"] or [], "warnings": line["warnings"] or []}) + b"\n"
            for line in piece
        )


def _csv(pieces: Iterable[list[dict[str, Any]]]) -> Iterator[bytes]:
    yield write_csv([[*_NAMES]])
    for piece in pieces:
        yield write_csv(
            [*(line[name] for name in _NAMES[:4]), _findings(line["errors"]), _findings(line["warnings"])]
            for line in piece
        )


def _findings(items: list[dict[str, Any]] | None) -> str:
    return "\n".join(
        f"{item['code']}{' at ' + item['attr'] if item['attr'] else ''}: {item['detail']}"
        for item in items or ()
    )


def write_csv(rows: Iterable[Iterable[Any]]) -> bytes:
    """Rows of CSV in UTF-8; a spreadsheet takes no cell of them for a formula."""
    text = io.StringIO()
    csv.writer(text).writerows([_safe(cell) for cell in row] for row in rows)
    return text.getvalue().encode()


def _safe(cell: Any) -> Any:
    # What starts like this is run as a formula by spreadsheets; suppliers choose the texts.
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(("=", "+", "-", "@", "\t", "\r")) else cell
