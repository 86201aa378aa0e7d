"""Storing a batch: one COPY moves its lines from the file into the database, in constant memory."""

import logging
import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any
from uuid import UUID

from psycopg.errors import LockNotAvailable
from psycopg.types.json import Jsonb
from sqlalchemy import ARRAY, BigInteger, bindparam, delete, select, text
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session

from migration_payloads.files.account_numbers import find_meant_number, find_number
from migration_payloads.files.totals import FileTotals
from migration_payloads.rules.catalogue import RULES_VERSION
from migration_payloads.schemas.json import encode_json
from migration_service import errors
from migration_service.db.base import new_id
from migration_service.db.cancelling import allow_minutes
from migration_service.db.sql import OpenTransaction
from migration_service.models import Batch, BatchChunk
from migration_service.origin import current_origin
from migration_service.services.batches.error_thresholds import threshold_to_store, usual_threshold
from migration_service.services.batches.intake import options
from migration_service.services.batches.intake.ranges import (
    LAST_CHUNK_LINES,
    AccountChunks,
    RangeChunks,
    cut_lines,
)
from migration_service.services.batches.intake.repeated import refuse_repeated
from migration_service.services.batches.intake.spool import LINE_OVERHEAD, SentFile, SpooledLines
from migration_service.services.batches.results.counts import LINES_OF_CHUNK, recount
from migration_service.services.batches.states import WINDOW_CLOSED
from migration_service.services.batches.work.lines import LineResult, tell_outcomes
from migration_service.services.setup.suppliers import KnownSupplier, require_ongoing
from migration_service.services.setup.teams import get_operations_team_id
from migration_service.states import BatchMode, BatchState, ImportState, LineStatus

logger = logging.getLogger(__name__)

#: The largest number of lines in a chunk, which one worker processes, and the average one of added data.
CHUNK_LINES, ADDED_CHUNK_LINES = 100, 200
#: The largest number of lines in an event of lines that failed while the file arrived.
TOLD = 250
#: The state of a wave's batch before the wave starts: paused, with a window that has ended.
_HELD = {"state": BatchState.PAUSED, "reason": WINDOW_CLOSED, "runs_until": datetime(1970, 1, 1, tzinfo=UTC)}
#: The columns of a batch that are members of its order.
_FROM_ORDER = (
    *("kind", "mode", "options", "source", "idempotency_key", "name", "file_name", "control_totals"),
    *("profile", "extracted_at", "lines_per_minute"),
)
#: The file is on this machine's disk, so this is the time that the COPY may take.
_LONGEST_COPY = "1h"


#: Called with the id of a batch when nothing can be wrong with its order any more.
OnAccepted = Callable[[UUID], object]


def check_order(session: Session, supplier: KnownSupplier, order: options.BatchOrder) -> bool:
    """Return whether a new batch would be started. If not, one with the same key was started earlier."""
    if _find_earlier(session, supplier, order):
        return False
    _require_startable(session, supplier, order)
    return True


def start_batch(
    session: Session,
    supplier: KnownSupplier,
    order: options.BatchOrder,
    lines: SpooledLines | None = None,
    *,
    on_accepted: OnAccepted = lambda _batch_id: None,
) -> UUID:
    """Store a batch with all its lines. Return its id, or that of an earlier batch with the same key.

    `lines` are those of an order of source UPLOAD. `on_accepted` is told the id before they are stored. All
    checks come before that, so a refused batch leaves no dead rows. Raise OperationsTeamNotFoundError,
    ImportSupplierPausedError or ImportSupplierCompleteError, and IdempotencyKeyReusedError if the key was
    used for another request.
    """
    digest = _digest(supplier, order, lines)
    if earlier := _find_earlier(session, supplier, order):
        if digest != earlier.request_sha256:
            raise errors.IdempotencyKeyReusedError
        return earlier.id
    team_id = _require_startable(session, supplier, order)
    batch_id = _insert_batch(session, supplier, order, team_id, lines)
    if batch_id is None:  # a concurrent request with the same key has just committed its batch
        return start_batch(session, supplier, order, lines, on_accepted=on_accepted)
    on_accepted(batch_id)
    allow_minutes(session, _LONGEST_COPY)
    older = totals = None
    if lines is None:
        older = _take_pending(session, batch_id, supplier.id, order)
    else:
        totals = _copy_lines(session, supplier, batch_id, lines, order)
    recount(session, batch_id)
    _tell_decided(session, batch_id)
    counted = {"stored_bytes": lines.stored_bytes if lines else None, "overhead": LINE_OVERHEAD}
    found = {"sha256": digest, "older": older, "totals": totals and encode_json(totals).decode()}
    session.execute(_COUNT_LINES, {"batch_id": batch_id, **found, **counted})
    options.record_order(session, order, batch_id, supplier.organisation_id)
    logger.info("Its work has the request id 'batch %s'", batch_id)
    return batch_id


def validated_under(profile: str | None, supplier_profile: str) -> str:
    """Return a text that identifies the rules and the profile currently used to validate lines."""
    return f"{RULES_VERSION} {profile or supplier_profile}"


def _digest(supplier: KnownSupplier, order: options.BatchOrder, lines: SpooledLines | None) -> bytes | None:
    if order.idempotency_key is None:
        return None
    return lines.sha256 if lines else sha256(order.identify(supplier.code)).digest()


def _find_earlier(session: Session, supplier: KnownSupplier, order: options.BatchOrder) -> Batch | None:
    if order.idempotency_key is None:
        return None
    own = Batch.organisation_id == supplier.organisation_id
    return session.scalar(select(Batch).where(own, Batch.idempotency_key == order.idempotency_key))


def _require_startable(session: Session, supplier: KnownSupplier, order: options.BatchOrder) -> int | None:
    """Return the id of the team, or None if the mode needs no team."""
    # Data can be added to existing accounts whatever the status of their supplier.
    if order.mode is not BatchMode.VALIDATE and order.has_accounts:
        require_ongoing(supplier.status)
    if not order.creates_accounts:
        return None
    return get_operations_team_id(session, supplier.organisation_id, order.operations_team_name)


def _insert_batch(
    session: Session,
    supplier: KnownSupplier,
    order: options.BatchOrder,
    team_id: int | None,
    lines: SpooledLines | None,
) -> UUID | None:
    sent_file = order.sent_file or (lines.sent_file if lines else SentFile())
    statement = (
        insert(Batch)
        .values(
            id=new_id(),
            organisation_id=supplier.organisation_id,
            import_supplier_id=supplier.id,
            **{name: getattr(order, name) for name in _FROM_ORDER},
            operations_team_id=team_id,
            api_key_id=order.api_key_id,
            request_id=current_origin().request_id,
            address=current_origin().address,
            file_sha256=sent_file.sha256,
            file_bytes=sent_file.bytes,
            file_totals=sent_file.totals,
            validated_under=validated_under(order.profile, supplier.profile),
            brake=threshold_to_store(order.error_threshold or usual_threshold(order.mode)),
            **({} if order.wave_processes is None else _HELD),
        )
        .on_conflict_do_nothing(constraint="uq_batch_idempotency_key")
        .returning(Batch.id)
    )
    try:
        return session.scalar(statement)
    except OperationalError as error:
        # A concurrent upload with the same key has not committed its row yet.
        if order.idempotency_key and isinstance(error.orig, LockNotAvailable):
            raise errors.IdempotencyRequestInProgressError from error
        raise


def _copy_lines(
    session: Session, supplier: KnownSupplier, batch_id: UUID, lines: SpooledLines, order: options.BatchOrder
) -> dict[str, Any] | None:
    """Store the lines. Return the totals of a new file of accounts, added up while the database works."""
    too_long = Jsonb([item.to_dict() for item in errors.LineTooLongError().errors])
    pending, refused = (LineStatus.PENDING.value, None), (LineStatus.FAILED.value, too_long)
    totals = FileTotals() if order.has_accounts and order.sent_file is None else None
    chunks: RangeChunks | AccountChunks = AccountChunks(lines, ADDED_CHUNK_LINES)
    if order.has_accounts:
        chunks = RangeChunks(lines.count, _largest_chunk(order), _smallest_chunk(order))
    with OpenTransaction.of(session).copy(_COPY) as copy:
        copy.set_types(["uuid", "int8", "bytea", "text", "text", "text", "jsonb", "int8"])
        for line in lines:
            number = None if line.text is None else find_number(line.text)
            meant = None if line.text is None else _find_meant(line.text, number)
            outcome = refused if line.text is None else pending
            chunk = chunks.add(line, number)
            copy.write_row((batch_id, line.number, line.text, number, meant, *outcome, chunk))
            if totals is not None:
                totals.add_line(line.text)
    if order.has_accounts:
        refuse_repeated(session, supplier, batch_id, order)
    _insert_chunks(session, batch_id, chunks.ranges, by_account=not order.has_accounts)
    return None if totals is None else totals.to_dict()


def _find_meant(line: bytes, number: str | None) -> str | None:
    """Return the number that a line means if it is not the one that it has, or if it has none."""
    meant = find_meant_number(line) if number is None or ".0" in number else None
    return None if meant == number else meant


def _tell_decided(session: Session, batch_id: UUID) -> None:
    """Record the events of lines that failed while the file arrived."""
    batch = session.get_one(Batch, batch_id)
    after = 0
    while rows := session.execute(_DECIDED, {"batch_id": batch_id, "after": after, "limit": TOLD}).all():
        failed = (
            LineResult(number, LineStatus.FAILED, account, errors=[errors.ErrorItem(**it) for it in found])
            for number, account, found in rows
        )
        tell_outcomes(session, batch, [*failed])
        after = rows[-1].line_number


def _take_pending(
    session: Session, batch_id: UUID, import_supplier_id: int, order: options.BatchOrder
) -> int | None:
    """Insert a line for each pending account, and each that is to be replaced, or for the listed ones.

    Return the number of accounts left out because a newer version was refused, or None for listed ones.
    """
    include = order.options.get(options.INCLUDE_OLDER_VERSIONS, False)
    replace = order.options.get(options.REPLACE_DIFFERING, False)
    values = {"batch_id": batch_id, "import_supplier_id": import_supplier_id}
    values |= {"include": include, "replace": replace}
    listed = order.processes if order.wave_processes is None else order.wave_processes
    older: int | None = None
    if listed is None:
        lines, older = session.execute(_TAKE_PENDING, values).one()
    else:
        lines, _ = session.execute(_TAKE_LISTED, values | {"process_ids": list(listed)}).one()
    _insert_chunks(session, batch_id, cut_lines(lines, _largest_chunk(order), _smallest_chunk(order)))
    return older


def set_rate(session: Session, batch: Batch, lines_per_minute: int | None) -> None:
    """Change the lines per minute of a batch of pending accounts of which no line was taken yet."""
    batch.lines_per_minute = lines_per_minute
    session.execute(delete(BatchChunk).where(BatchChunk.batch_id == batch.id))
    _insert_chunks(session, batch.id, cut_lines(batch.lines, _largest_chunk(batch), _smallest_chunk(batch)))
    recount(session, batch.id)


def _smallest_chunk(order: options.BatchOrder | Batch) -> int:
    """Return the smallest size of a chunk. All chunks are full if the lines per minute are limited."""
    return _largest_chunk(order) if order.lines_per_minute else LAST_CHUNK_LINES


def _largest_chunk(order: options.BatchOrder | Batch) -> int:
    """Return the size of a full chunk. If the lines per minute are limited, it has those of ten seconds."""
    return max(1, min(CHUNK_LINES, (order.lines_per_minute or sys.maxsize) // 6))


def _insert_chunks(
    session: Session, batch_id: UUID, ranges: Sequence[tuple[int, int]], *, by_account: bool = False
) -> None:
    values = {"batch_id": batch_id, "ranges": encode_json(ranges).decode(), "by_account": by_account}
    session.execute(_INSERT_CHUNKS, values)


_COPY = (
    "COPY batch_line (batch_id, line_number, payload, external_account_number, meant_number, status, errors, "
    "chunk_line) FROM STDIN (FORMAT BINARY)"
)

_INSERT_CHUNKS = text("""
    INSERT INTO batch_chunk (batch_id, first_line, last_line, by_account)
    SELECT :batch_id, CAST(range -> 0 AS bigint), CAST(range -> 1 AS bigint), :by_account
    FROM jsonb_array_elements(CAST(:ranges AS jsonb)) AS range
""")


def _take(condition: str = "true") -> str:
    """Return the statement that inserts lines and returns their number, and that of accounts left out."""
    own = f"FROM account_import_process WHERE import_supplier_id = :import_supplier_id AND {condition}"
    newest = "(:replace AND refused_payload IS NOT NULL)"
    is_pending = f"state = '{ImportState.PENDING}'"
    return f"""
        WITH taken AS (
            INSERT INTO batch_line
                (batch_id, line_number, external_account_number, account_import_process_id)
            SELECT :batch_id, row_number() OVER (ORDER BY external_account_number),
                external_account_number, id
            {own} AND ({is_pending} AND (:include OR refused_at IS NULL)
                OR ({is_pending} OR state = '{ImportState.IMPORTED}') AND {newest})
            RETURNING line_number)
        SELECT (SELECT count(*) FROM taken) AS lines,
               (SELECT count(*) {own} AND {is_pending} AND NOT :include AND refused_at IS NOT NULL
                AND NOT {newest}) AS older
    """


_TAKE_PENDING = text(_take())
_TAKE_LISTED = text(_take("id = ANY (:process_ids)")).bindparams(
    bindparam("process_ids", type_=ARRAY(BigInteger))
)

# Only chunks with failed lines are read.
_DECIDED = text(f"""
    SELECT line_number, external_account_number, errors
    FROM (SELECT * FROM batch_chunk
          WHERE batch_id = :batch_id AND counts ? '{LineStatus.FAILED}') AS batch_chunk
    CROSS JOIN LATERAL {LINES_OF_CHUNK} AS line
    WHERE line.status = '{LineStatus.FAILED}' AND line_number > :after
    ORDER BY line_number LIMIT :limit
""")

_COUNT_LINES = text("""
    UPDATE batch SET request_sha256 = :sha256, older_versions = CAST(:older AS bigint),
        file_totals = coalesce(file_totals, CAST(:totals AS jsonb)),
        lines = counted.lines, runs_since = clock_timestamp(),
        stored_bytes = coalesce(CAST(:stored_bytes AS bigint), counted.lines * :overhead)
    FROM (SELECT coalesce(sum(CAST(value AS bigint)), 0) AS lines
          FROM batch_chunk, jsonb_each(counts) WHERE batch_id = :batch_id) AS counted
    WHERE id = :batch_id
""")
