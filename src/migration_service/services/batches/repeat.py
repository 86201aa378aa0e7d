"""Repeating a batch: starting one with the lines of an earlier batch, for example in another mode."""

from collections.abc import Iterator
from dataclasses import replace
from uuid import UUID

from redis import Redis
from sqlalchemy import true
from sqlalchemy.orm import Session, sessionmaker

from migration_service.models import Batch, BatchLine
from migration_service.services.batches.intake.options import BatchOrder
from migration_service.services.batches.intake.spool import SentFile
from migration_service.services.batches.intake.storing import IntakeLimits, take_in_batch
from migration_service.services.batches.results.line_results import TEXT, Lines, text_of
from migration_service.services.setup.suppliers import KnownSupplier


def repeat_batch(
    sessions: sessionmaker[Session],
    supplier: KnownSupplier,
    batch_id: UUID,
    order: BatchOrder,
    *,
    redis: Redis,
    limits: IntakeLimits,
) -> UUID:
    """Start a batch with all lines of another one, at the same positions. Return its id.

    Its file is the original one. Lines that were too long to keep are blank.
    """
    with sessions.begin() as session:
        earlier = session.get_one(Batch, batch_id)
        sent_file = SentFile(earlier.file_sha256, earlier.file_bytes, earlier.file_totals)
        order = replace(order, sent_file=sent_file, control_totals=earlier.control_totals)
    lines = stream_lines(sessions, batch_id)
    return take_in_batch(sessions, supplier, order, lines, redis=redis, limits=limits)


def stream_lines(sessions: sessionmaker[Session], batch_id: UUID) -> Iterator[bytes]:
    """Yield the lines of a batch as they were sent, at their original line numbers, in pieces."""
    lines = Lines(batch_id, true(), (BatchLine.line_number, *TEXT))
    written = 0
    while rows := lines.read(sessions, written):
        piece = b""
        for row in rows:
            sent = text_of(row.payload, row.staged) or b""
            piece += b"\n" * (row.line_number - written - 1) + sent + b"\n"
            written = row.line_number
        yield piece
