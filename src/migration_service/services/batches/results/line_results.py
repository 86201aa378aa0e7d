"""Streams of the results of a batch by line, as NDJSON or CSV, and of its failed lines as they were sent."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import partial
from operator import attrgetter
from typing import Any
from uuid import UUID

import msgspec
from sqlalchemy import (
    ColumnElement,
    Row,
    Select,
    Text,
    and_,
    bindparam,
    case,
    func,
    literal,
    literal_column,
    or_,
    select,
    text,
    true,
)
from sqlalchemy.orm import Session, sessionmaker

from migration_payloads.schemas.json import encode_json
from migration_service.db.base import one_of
from migration_service.db.pieces import DECODED, LONGEST_PIECE, READ_BYTES, in_pieces, weight_of
from migration_service.errors import ConflictingLinesError, DuplicateLineError
from migration_service.formats import ResultFormat, write_csv
from migration_service.models import AccountImportProcess, BatchChunk, BatchLine
from migration_service.states import ChunkState, LineStatus, StagingResult

#: The largest number of lines that are read together.
_PIECE = 1_000
#: SQL for the bytes of a line with its findings, its text and its staged payload.
_WEIGHT = weight_of("batch_line.errors", "batch_line.warnings", "account_import_process.payload") + (
    " + coalesce(octet_length(batch_line.payload), 0)"
)
COLUMNS = (
    *(BatchLine.line_number, BatchLine.external_account_number, BatchLine.status),
    *(BatchLine.service_account_number, BatchLine.errors, BatchLine.warnings, BatchLine.staging_result),
)
_NAMES = tuple(column.key for column in COLUMNS[:4])
_CSV_NAMES = (*_NAMES, "severity", "code", "path", "detail", "value")
#: The number of characters of a value that are shown with its error.
_VALUE_LENGTH = 200
_LENGTH = func.octet_length(BatchLine.payload)
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

    def chunk_condition(self) -> ColumnElement[bool]:
        """Return the SQL condition on a chunk that has been counted: it may have such a line."""
        conditions: list[Any] = [func.jsonb_exists(BatchChunk.counts, self.status)] if self.status else []
        if self.code is not None:
            counts = (BatchChunk.error_counts, BatchChunk.warning_counts)
            conditions.append(or_(*(func.jsonb_exists(it, self.code) for it in counts)))
        return or_(BatchChunk.state != ChunkState.DONE, and_(true(), *conditions))

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
    """Yield the matching lines of a batch in order, in pieces. Each finding has the `value` at its path.

    Each piece is read in separate transactions, so a slow reader keeps none open, and costs a piece.
    """
    is_csv = result_format is ResultFormat.CSV
    if is_csv:
        yield write_csv([_CSV_NAMES])

    def write(row: Row[Any]) -> bytes:
        line = _found_in(row)
        return write_csv(_rows(line, wanted)) if is_csv else encode_json(line) + b"\n"

    # The text is read only for lines with an error or a warning.
    has_findings = BatchLine.errors.is_not(None) | BatchLine.warnings.is_not(None)
    texts = [
        case((has_findings, it)).label(name) for it, name in zip(TEXT, ("payload", "staged"), strict=True)
    ]
    lines = Lines(batch_id, wanted.condition(), (*COLUMNS, *texts))
    yield from in_pieces(partial(lines.read, sessions), write, attrgetter("line_number"), 0)


def stream_failed_lines(
    sessions: sessionmaker[Session], batch_id: UUID, wanted: ResultFilter = ResultFilter()
) -> Iterator[bytes]:
    """Yield the failed lines of a batch as they were sent, as NDJSON in pieces, to correct and resend.

    Lines that were too long to keep, or are the same as an earlier line, are left out: `count_left_out`.
    """
    columns = (
        BatchLine.line_number,
        _LENGTH.label("length"),
        case((_LENGTH <= LONGEST_PIECE, TEXT[0])).label("payload"),
    )
    lines = Lines(batch_id, _is_failed(wanted) & ~_IS_DUPLICATE, (*columns, TEXT[1]))
    after = 0
    while rows := lines.read(sessions, after):
        piece = b""
        for row in rows:
            sent = text_of(row.payload, row.staged)
            piece += b"" if sent is None else sent + b"\n"
            if (row.length or 0) > LONGEST_PIECE:
                yield piece
                yield from _slice(sessions, batch_id, row.line_number, row.length)
                piece = b"\n"
        yield piece
        after = rows[-1].line_number


def _slice(sessions: sessionmaker[Session], batch_id: UUID, line_number: int, length: int) -> Iterator[bytes]:
    """Yield the text of a long line in pieces, so that nobody who reads slowly holds all of it."""
    for start in range(1, length + 1, LONGEST_PIECE):
        part = select(func.substring(BatchLine.payload, start, LONGEST_PIECE))
        with sessions.begin() as session:
            its = part.where(BatchLine.batch_id == batch_id, BatchLine.line_number == line_number)
            piece = session.scalar(its) or b""
        yield piece


def count_left_out(session: Session, batch_id: UUID, wanted: ResultFilter = ResultFilter()) -> int:
    """Return the number of failed lines that `stream_failed_lines` leaves out."""
    is_lost = BatchLine.payload.is_(None) & BatchLine.account_import_process_id.is_(None)
    counted = select(func.count()).select_from(BatchLine).where(BatchLine.batch_id == batch_id)
    return session.scalars(counted.where(_is_failed(wanted), _IS_DUPLICATE | is_lost)).one()


def _is_failed(wanted: ResultFilter) -> ColumnElement[bool]:
    return replace(wanted, status=LineStatus.FAILED).condition()


def select_lines(batch_id: UUID, *columns: Any) -> Select[Any]:
    """Return the statement for these columns of the lines of a batch, in order."""
    return (
        select(*columns)
        .outerjoin(AccountImportProcess, AccountImportProcess.id == BatchLine.account_import_process_id)
        .where(BatchLine.batch_id == batch_id)
        .order_by(BatchLine.line_number)
    )


class Lines:
    """The matching lines of a batch, to be read a few at a time: as many as weigh little together.

    With `chunks`, a condition on the chunks of a batch of accounts, no others are read.
    """

    def __init__(
        self,
        batch_id: UUID,
        condition: ColumnElement[bool],
        columns: Sequence[Any],
        chunks: ColumnElement[bool] | None = None,
    ) -> None:
        found = select_lines(batch_id, BatchLine.line_number, literal_column(_WEIGHT).label("weight"))
        found = found.where(condition, BatchLine.line_number > bindparam("after"))
        if chunks is not None:
            chunk = select(BatchChunk.first_line, BatchChunk.last_line).where(
                BatchChunk.batch_id == batch_id, BatchChunk.last_line > bindparam("after"), chunks
            )
            of = chunk.subquery()
            # OFFSET 0 keeps the chunks from being looked up for each line of the batch.
            own = found.where(BatchLine.line_number.between(*of.c)).offset(0).lateral()
            found = select(own).join_from(of, own, true()).order_by(of.c.first_line, own.c.line_number)
        self._weighed = found.limit(_PIECE)
        self._rows = select_lines(batch_id, *columns)

    def read(self, sessions: sessionmaker[Session], after: int) -> Sequence[Row[Any]]:
        """Return the next lines after a line, in order, at least one if there is one."""
        with sessions.begin() as session:
            return self.read_in(session, after)

    def read_in(self, session: Session, after: int) -> Sequence[Row[Any]]:
        """Do the same in a transaction."""
        numbers: list[int] = []
        total = 0
        for line_number, weight in session.execute(self._weighed, {"after": after}):
            total += weight
            if numbers and total > READ_BYTES:
                break
            numbers.append(line_number)
        if not numbers:
            return []
        return session.execute(self._rows.where(one_of(BatchLine.line_number.expression, numbers))).all()


def _found_in(row: Row[Any]) -> dict[str, Any]:
    """Return the result of a line. Each of its errors and warnings has the `value` at its path."""
    line = {column.key: getattr(row, column.key) for column in COLUMNS}
    line |= {"errors": line["errors"] or [], "warnings": line["warnings"] or []}
    findings = (*line["errors"], *line["warnings"])
    sent = text_of(row.payload, row.staged) if findings else None
    with DECODED.holding(len(sent or b"")):
        payload = _decoded(sent)
        for item in findings:
            item["value"] = value_at(payload, item["attr"])
        del payload
    return line


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
