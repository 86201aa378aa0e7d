"""Starts a batch. Its lines are copied into the database as they arrive, in constant memory."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from typing import Any
from uuid import UUID

import msgspec
from psycopg.errors import LockNotAvailable
from psycopg.types.json import Jsonb
from sqlalchemy import select, text
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session

from migration_service.db.base import new_id
from migration_service.errors import (
    BatchFileError,
    DuplicateLineError,
    ErrorItem,
    IdempotencyKeyReusedError,
    IdempotencyRequestInProgressError,
    LineTooLongError,
    RequestFailedValidationError,
)
from migration_service.models import Batch
from migration_service.origin import current_origin
from migration_service.rules.catalogue import RULES_VERSION
from migration_service.schemas.json import encode_json
from migration_service.services.batches.counts import recount
from migration_service.services.batches.ndjson import Line
from migration_service.services.imports.staging import require_ongoing
from migration_service.services.setup.suppliers import KnownSupplier
from migration_service.services.setup.teams import get_operations_team_id
from migration_service.states import BatchMode, BatchSource, ImportState, LineStatus, Profile

#: A chunk is what a worker takes at once: this many lines, or fewer if they are long (in bytes).
CHUNK_LINES = 100
CHUNK_BYTES = 4_000_000
#: Characters of an idempotency key.
MAX_KEY = 128
#: An upload that takes longer is cancelled, because it holds a database connection.
_LONGEST_UPLOAD = "4h"


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchOrder:
    """What a batch is to do. If `lines` is None, it takes everything that the supplier has pending.

    Raise RequestFailedValidationError if the parts do not fit together.
    """

    mode: BatchMode
    operations_team_name: str | None = None
    lines: Iterable[Line] | None = None
    api_key_id: int | None = None
    idempotency_key: str | None = None
    #: The name of the batch, and the name of the file that the lines come in.
    name: str | None = None
    file_name: str | None = None
    #: The profile that the lines are validated under; None: the supplier's own.
    profile: Profile | None = None

    def __post_init__(self) -> None:
        key, errors = self.idempotency_key, []
        if self.mode.creates and self.operations_team_name is None:
            detail = f"Mode {self.mode} needs an operations team."
            errors.append(ErrorItem("required", detail, "operations_team_name"))
        if self.lines is None and not self.mode.creates:
            detail = "Pending accounts are already staged. Expected mode import or dry-run."
            errors.append(ErrorItem("invalid_choice", detail, "mode"))
        if key and not (len(key) <= MAX_KEY and key.isprintable()):
            detail = f"Expected at most {MAX_KEY} printable characters."
            errors.append(ErrorItem("invalid", detail, "Idempotency-Key"))
        if errors:
            raise RequestFailedValidationError(errors=errors)


def start_batch(session: Session, supplier: KnownSupplier, order: BatchOrder) -> UUID:
    """Store a batch with all its lines, and return its id, or the id of the earlier batch with the same key.

    Read `order.lines` to the end, or store nothing. Raise what reading them raises, BatchFileError if there
    is no line, OperationsTeamNotFoundError, ImportSupplierPausedError, ImportSupplierCompleteError, or
    IdempotencyKeyReusedError if the key was used for something else.
    """
    lines = _Hashed(order, supplier.code)
    if earlier := _find_earlier(session, supplier, order):
        return _require_same(earlier, lines)
    if order.mode is not BatchMode.VALIDATE:
        require_ongoing(supplier.status)
    batch_id = _insert_batch(session, supplier, order)
    if batch_id is None:  # another upload with the same key was committed meanwhile
        return start_batch(session, supplier, order)
    session.execute(text(f"SET LOCAL statement_timeout = '{_LONGEST_UPLOAD}'"))
    if order.lines is None:
        _take_pending(session, batch_id, supplier.id)
    else:
        _copy_lines(session, batch_id, lines)
    recount(session, batch_id)
    session.execute(_COUNT_LINES, {"batch_id": batch_id, "sha256": lines.digest()})
    return batch_id


def validated_under(profile: str | None, supplier_profile: str) -> str:
    """Return a text that identifies the rules and the profile under which lines are validated now."""
    return f"{RULES_VERSION} {profile or supplier_profile}"


class _Hashed:
    """The lines of an order. They are hashed, together with the order, while they are read."""

    def __init__(self, order: BatchOrder, supplier_code: str) -> None:
        self._lines = order.lines or ()
        asked: list[Any] = [supplier_code, order.mode, order.operations_team_name, order.lines is None]
        asked += [order.profile] if order.profile else []
        self._hash = sha256(encode_json(asked))
        self._wanted = order.idempotency_key is not None

    def __iter__(self) -> Iterator[Line]:
        for line in self._lines:
            if self._wanted:
                self._hash.update(b"%d %b\n" % (line.number, line.text or b"-"))
            yield line

    def digest(self) -> bytes | None:
        return self._hash.digest() if self._wanted else None


def _find_earlier(session: Session, supplier: KnownSupplier, order: BatchOrder) -> Batch | None:
    if order.idempotency_key is None:
        return None
    return session.execute(
        select(Batch).where(
            Batch.organisation_id == supplier.organisation_id,
            Batch.idempotency_key == order.idempotency_key,
        )
    ).scalar_one_or_none()


def _require_same(earlier: Batch, lines: _Hashed) -> UUID:
    for _ in lines:
        pass
    if lines.digest() != earlier.request_sha256:
        raise IdempotencyKeyReusedError
    return earlier.id


def _insert_batch(session: Session, supplier: KnownSupplier, order: BatchOrder) -> UUID | None:
    team_id = None
    if order.mode.creates:
        team_id = get_operations_team_id(session, supplier.organisation_id, order.operations_team_name)
    statement = (
        insert(Batch)
        .values(
            id=new_id(),
            organisation_id=supplier.organisation_id,
            import_supplier_id=supplier.id,
            mode=order.mode,
            source=BatchSource.PENDING if order.lines is None else BatchSource.UPLOAD,
            operations_team_id=team_id,
            api_key_id=order.api_key_id,
            request_id=current_origin().request_id,
            address=current_origin().address,
            idempotency_key=order.idempotency_key,
            name=order.name,
            file_name=order.file_name,
            profile=order.profile,
            validated_under=validated_under(order.profile, supplier.profile),
        )
        .on_conflict_do_nothing(constraint="uq_batch_idempotency_key")
        .returning(Batch.id)
    )
    try:
        return session.scalar(statement)
    except OperationalError as error:
        # The row of another upload with the same key is not committed yet.
        if order.idempotency_key and isinstance(error.orig, LockNotAvailable):
            raise IdempotencyRequestInProgressError from error
        raise


class _Head(msgspec.Struct):
    """What is read of a line while it arrives. Everything else of it is skipped."""

    external_account_number: Any = None


_decode_head = msgspec.json.Decoder(_Head).decode


def _find_number(line: bytes) -> str | None:
    """Return the line's external account number if it has a valid one, to find repeated accounts."""
    try:
        number = _decode_head(line).external_account_number
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return number if isinstance(number, str) and number.isprintable() and len(number) <= 128 else None


def _copy_lines(session: Session, batch_id: UUID, lines: Iterable[Line]) -> None:
    connection: Any = session.connection().connection.driver_connection
    too_long = Jsonb([item.to_dict() for item in LineTooLongError().errors])
    chunks = _Chunks()
    with connection.cursor() as cursor, cursor.copy(_COPY) as copy:
        copy.set_types(["uuid", "int8", "bytea", "text", "text", "jsonb"])
        for line in lines:
            chunks.add(line)
            if line.text is None:
                copy.write_row((batch_id, line.number, None, None, LineStatus.FAILED.value, too_long))
            else:
                number = _find_number(line.text)
                copy.write_row((batch_id, line.number, line.text, number, LineStatus.PENDING.value, None))
    if not chunks.ranges:
        raise BatchFileError("The file has no lines.")
    duplicate = encode_json([item.to_dict() for item in DuplicateLineError().errors]).decode()
    session.execute(_MARK_DUPLICATES, {"batch_id": batch_id, "errors": duplicate})
    ranges = encode_json(chunks.ranges).decode()
    session.execute(_INSERT_CHUNKS, {"batch_id": batch_id, "ranges": ranges})


class _Chunks:
    """The first and the last line of each chunk, recorded while the lines arrive."""

    def __init__(self) -> None:
        self.ranges: list[tuple[int, int]] = []
        self._lines = self._bytes = 0

    def add(self, line: Line) -> None:
        size = len(line.text or b"")
        if not self.ranges or self._lines >= CHUNK_LINES or self._bytes + size > CHUNK_BYTES:
            self.ranges.append((line.number, line.number))
            self._lines = self._bytes = 0
        self.ranges[-1] = (self.ranges[-1][0], line.number)
        self._lines += 1
        self._bytes += size


def _take_pending(session: Session, batch_id: UUID, import_supplier_id: int) -> None:
    session.execute(_TAKE_PENDING, {"batch_id": batch_id, "import_supplier_id": import_supplier_id})
    session.execute(_CHUNK_PENDING, {"batch_id": batch_id, "lines": CHUNK_LINES})


_COPY = (
    "COPY batch_line (batch_id, line_number, payload, external_account_number, status, errors) "
    "FROM STDIN (FORMAT BINARY)"
)

# With an array, because the planner has no statistics of the new lines, and would join them row by row.
_MARK_DUPLICATES = text(f"""
    UPDATE batch_line SET status = '{LineStatus.FAILED}', errors = CAST(:errors AS jsonb)
    WHERE batch_id = :batch_id AND line_number = ANY (ARRAY(
        SELECT line_number FROM (
            SELECT line_number,
                   row_number() OVER (PARTITION BY external_account_number ORDER BY line_number) AS place
            FROM batch_line WHERE batch_id = :batch_id AND external_account_number IS NOT NULL) AS numbered
        WHERE place > 1))
""")

_INSERT_CHUNKS = text("""
    INSERT INTO batch_chunk (batch_id, first_line, last_line)
    SELECT :batch_id, CAST(range -> 0 AS bigint), CAST(range -> 1 AS bigint)
    FROM jsonb_array_elements(CAST(:ranges AS jsonb)) AS range
""")

_TAKE_PENDING = text(f"""
    INSERT INTO batch_line (batch_id, line_number, external_account_number, account_import_process_id)
    SELECT :batch_id, row_number() OVER (ORDER BY external_account_number), external_account_number, id
    FROM account_import_process
    WHERE import_supplier_id = :import_supplier_id AND state = '{ImportState.PENDING}'
""")

_CHUNK_PENDING = text("""
    INSERT INTO batch_chunk (batch_id, first_line, last_line)
    SELECT :batch_id, min(line_number), max(line_number)
    FROM batch_line WHERE batch_id = :batch_id GROUP BY (line_number - 1) / :lines
""")

_COUNT_LINES = text("""
    UPDATE batch SET request_sha256 = :sha256,
        lines = (SELECT coalesce(sum(CAST(value AS bigint)), 0)
                 FROM batch_chunk, jsonb_each(counts) WHERE batch_id = :batch_id)
    WHERE id = :batch_id
""")
