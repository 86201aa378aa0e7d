"""Streams of the results of a batch by line, as NDJSON or CSV, and of its failed lines as they were sent."""

import csv
import io
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from decimal import Decimal
from enum import StrEnum
from typing import Any
from uuid import UUID

import msgspec
from sqlalchemy import ColumnElement, Select, Text, and_, bindparam, func, literal, select, text, true
from sqlalchemy.orm import Session, sessionmaker

from migration_payloads.schemas.json import encode_json
from migration_service.errors import ConflictingLinesError, DuplicateLineError
from migration_service.models import AccountImportProcess, BatchLine
from migration_service.states import LineStatus, StagingResult

#: The number of lines that are read and written together.
_PIECE = 1_000
#: The number of lines whose text is read together.
_TEXT_PIECE = 50
COLUMNS = (
    *(BatchLine.line_number, BatchLine.external_account_number, BatchLine.status),
    *(BatchLine.service_account_number, BatchLine.errors, BatchLine.warnings, BatchLine.staging_result),
)
_NAMES = tuple(column.key for column in COLUMNS[:4])
_CSV_NAMES = (*_NAMES, "severity", "code", "path", "detail", "value")
#: The number of characters of a value that are shown with its error.
_VALUE_LENGTH = 200
#: The text of a line, and of the staged payload that it refers to.
TEXT = (BatchLine.payload, AccountImportProcess.payload.op("::")(text("text")).label("staged"))
_IS_DUPLICATE = func.coalesce(
    BatchLine.errors.contains([{"code": DuplicateLineError.code}])
    & ~BatchLine.errors.contains([{"code": ConflictingLinesError.code}]),
    literal(False),
)
#: Condition: the batch_line row has an error or a warning `:code` at `:path`, a regular expression.
HAS_FINDING = """
    EXISTS (SELECT FROM jsonb_array_elements(
                coalesce(batch_line.errors, '[]') || coalesce(batch_line.warnings, '[]')) AS finding
            WHERE (:code IS NULL OR finding ->> 'code' = :code)
              AND (:path IS NULL OR coalesce(finding ->> 'attr', '') ~ :path))
"""
# Far faster than `parse_json`, which has already checked the text. Numbers stay exact.
_decode = msgspec.json.Decoder(float_hook=Decimal).decode
_HAS_FINDING = text(HAS_FINDING).bindparams(bindparam("code", type_=Text), bindparam("path", type_=Text))


class ResultFormat(StrEnum):
    """The formats of results."""

    #: One JSON object per line.
    NDJSON = "ndjson"
    #: With a header. One row for each error and warning, and one for each line without any.
    CSV = "csv"


@dataclass(frozen=True, slots=True)
class ResultFilter:
    """A filter of lines. None means any."""

    status: LineStatus | None = None
    #: Lines with an error or a warning of this code.
    code: str | None = None
    #: Lines with an error or a warning at this path. `*` stands for any index: `customers.*.mobile`.
    path: str | None = None
    #: The line with this number.
    line: int | None = None
    #: Lines with this effect of staging.
    staging_result: StagingResult | None = None

    def condition(self) -> ColumnElement[bool]:
        """Return the SQL condition on a line."""
        conditions: list[Any] = [BatchLine.status == self.status] if self.status else []
        if self.line is not None:
            conditions.append(BatchLine.line_number == self.line)
        if self.staging_result is not None:
            conditions.append(BatchLine.staging_result == self.staging_result)
        if self.code is not None or self.path is not None:
            conditions.append(_HAS_FINDING.bindparams(code=self.code, path=self.pattern))
        return and_(true(), *conditions)

    def picks(self, finding: dict[str, Any]) -> bool:
        """Return whether the filter selects an error or a warning."""
        pattern = self.pattern
        return self.code in (None, finding["code"]) and (
            pattern is None or re.search(pattern, finding["attr"] or "") is not None
        )

    @property
    def pattern(self) -> str | None:
        """Return the regular expression of the path, in Python and in PostgreSQL."""
        if self.path is None:
            return None
        parts = ("[0-9]+" if part == "*" else re.escape(part) for part in self.path.split("."))
        return f"^{'[.]'.join(parts)}([.]|$)"


def stream_results(
    sessions: sessionmaker[Session],
    batch_id: UUID,
    result_format: ResultFormat,
    wanted: ResultFilter = ResultFilter(),
) -> Iterator[bytes]:
    """Yield the matching lines of a batch in order, in pieces.

    Each piece is read in a separate transaction, so a slow reader keeps none open.
    """
    is_csv = result_format is ResultFormat.CSV
    if is_csv:
        yield write_csv([_CSV_NAMES])
    for piece in _read_found(sessions, batch_id, wanted):
        if is_csv:
            yield write_csv(row for line in piece for row in _rows(line, wanted))
        else:
            yield b"".join(encode_json(line) + b"\n" for line in piece)


def stream_failed_lines(
    sessions: sessionmaker[Session],
    batch_id: UUID,
    wanted: ResultFilter = ResultFilter(),
) -> Iterator[bytes]:
    """Yield the failed lines of a batch as they were sent, as NDJSON in pieces, to correct and resend.

    Lines that were too long to keep, or are the same as an earlier line, are left out.
    """
    condition = replace(wanted, status=LineStatus.FAILED).condition() & ~_IS_DUPLICATE
    columns = select_lines(batch_id, BatchLine.line_number, *TEXT).where(condition)
    for piece in read_pieces(sessions, columns, _TEXT_PIECE):
        texts = (text_of(line["payload"], line["staged"]) for line in piece)
        yield b"".join(text + b"\n" for text in texts if text is not None)


def select_lines(batch_id: UUID, *columns: Any) -> Select[Any]:
    """Return the statement for these columns of the lines of a batch, in order."""
    return (
        select(*columns)
        .outerjoin(AccountImportProcess, AccountImportProcess.id == BatchLine.account_import_process_id)
        .where(BatchLine.batch_id == batch_id)
        .order_by(BatchLine.line_number)
    )


def read_pieces(
    sessions: sessionmaker[Session], statement: Select[Any], piece: int
) -> Iterator[list[dict[str, Any]]]:
    """Yield the rows of `select_lines` in pieces, each read in a separate transaction."""
    statement = statement.where(BatchLine.line_number > bindparam("after")).limit(piece)
    after = 0
    while True:
        with sessions.begin() as session:
            rows = session.execute(statement, {"after": after}).mappings().all()
        if not rows:
            return
        after = rows[-1]["line_number"]
        yield [dict(row) for row in rows]


def _read_found(
    sessions: sessionmaker[Session], batch_id: UUID, wanted: ResultFilter
) -> Iterator[list[dict[str, Any]]]:
    """Yield the matching lines in pieces. Each of their errors and warnings has the `value` at its path.

    Texts are read only for lines with an error or a warning.
    """
    for lines in read_pieces(sessions, select_lines(batch_id, *COLUMNS).where(wanted.condition()), _PIECE):
        for line in lines:
            line |= {"errors": line["errors"] or [], "warnings": line["warnings"] or []}
        found = [line for line in lines if line["errors"] or line["warnings"]]
        for start in range(0, len(found), _TEXT_PIECE):
            some = {line["line_number"]: line for line in found[start : start + _TEXT_PIECE]}
            statement = select_lines(batch_id, BatchLine.line_number, *TEXT)
            with sessions.begin() as session:
                texts = session.execute(statement.where(BatchLine.line_number.in_(some))).all()
            payloads = {row.line_number: _decoded(text_of(row.payload, row.staged)) for row in texts}
            for number, line in some.items():
                for item in (*line["errors"], *line["warnings"]):
                    item["value"] = value_at(payloads.get(number), item["attr"])
        yield lines


def _rows(line: dict[str, Any], wanted: ResultFilter) -> Iterator[list[Any]]:
    """Yield a row of CSV for each error and warning of a line, or one row if the line has none."""
    head = [line[name] for name in _NAMES]
    if not line["errors"] and not line["warnings"]:
        yield [*head, *[None] * 5]
    for severity in ("error", "warning"):
        for item in filter(wanted.picks, line[f"{severity}s"]):
            yield [*head, severity, item["code"], item["attr"], item["detail"], item["value"]]


def text_of(payload: bytes | None, staged: str | None) -> bytes | None:
    """Return the text of a line as it was sent, or the staged payload if the line has no text."""
    if payload is not None:
        return bytes(payload)
    return None if staged is None else staged.encode()


def _decoded(text: bytes | None) -> Any:
    try:
        return _decode(text) if text is not None else None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def value_at(payload: Any, path: str | None) -> str | None:
    """Return the value at a path of a payload as shortened JSON text, or None if there is none."""
    if path is None:
        return None
    value = payload
    for part in path.split("."):
        if isinstance(value, dict) and part in value:
            value = value[part]
        elif isinstance(value, list) and part.isdecimal() and int(part) < len(value):
            value = value[int(part)]
        else:
            return None
    text = value if isinstance(value, str) else encode_json(value).decode()
    return text if len(text) <= _VALUE_LENGTH else f"{text[:_VALUE_LENGTH]}..."


def write_csv(rows: Iterable[Iterable[Any]]) -> bytes:
    """Return rows of CSV in UTF-8, every cell in quotation marks.

    The cells are exactly the values, for programs. Import them into a spreadsheet as text.
    """
    text = io.StringIO()
    csv.writer(text, quoting=csv.QUOTE_ALL).writerows(rows)
    return text.getvalue().encode()
