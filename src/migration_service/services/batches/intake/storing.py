"""Receiving the file of a batch, or repeating one: it is counted, spooled and checked before it is stored.

These functions open their own transactions, all of them short except the one that stores the lines.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from uuid import UUID

from redis import Redis
from sqlalchemy import true
from sqlalchemy.orm import Session, sessionmaker

from migration_payloads.files.ndjson import FileLimits
from migration_service.db.holding import repeat
from migration_service.errors import TooManyUploadsError
from migration_service.models import Batch, BatchLine
from migration_service.services.batches.intake.options import BatchOrder
from migration_service.services.batches.intake.quotas import (
    BatchQuotas,
    lease_upload,
    lock_storing,
    require_room,
)
from migration_service.services.batches.intake.spool import SentFile, SpooledLines, spool
from migration_service.services.batches.intake.upload import OnAccepted, check_order, start_batch
from migration_service.services.batches.results.line_results import TEXT, Lines, text_of
from migration_service.services.setup.suppliers import KnownSupplier

#: Seconds between two attempts to store a batch.
_PAUSE = 0.25
#: Seconds that an upload waits for others of its organisation to be stored.
_LONGEST_WAIT = 900.0


@dataclass(frozen=True, slots=True)
class IntakeLimits:
    """The limits on an upload and on its organisation, and on the simultaneous uploads of that."""

    file: FileLimits
    quotas: BatchQuotas
    uploads: int
    #: The folder for uploads, or empty for the system's temporary folder.
    folder: str = ""


def take_in_batch(
    sessions: sessionmaker[Session],
    supplier: KnownSupplier,
    order: BatchOrder,
    blocks: Iterable[bytes],
    *,
    redis: Redis,
    limits: IntakeLimits,
    on_accepted: OnAccepted = lambda _batch_id: None,
) -> UUID:
    """Read an upload completely and store it. Return the id of the batch.

    `on_accepted` is told it before the lines are stored, once nothing can be wrong with the order any more.

    No database connection is held while `blocks` arrive. After an error, nothing remains of the upload.
    """
    with sessions.begin() as session:
        _check(session, supplier, order, limits)
    with lease_upload(redis, supplier.organisation_id, limits.uploads) as renew:
        identity = order.identify(supplier.code)
        with spool(blocks, limits.file, identity=identity, folder=limits.folder, on_block=renew) as lines:
            return store_batch(sessions, supplier, order, limits, on_accepted, lines=lines, renew=renew)


def _check(
    session: Session, supplier: KnownSupplier, order: BatchOrder, limits: IntakeLimits, stored_bytes: int = 0
) -> None:
    if check_order(session, supplier, order):
        require_room(session, supplier.organisation_id, limits.quotas, stored_bytes)


def store_batch(
    sessions: sessionmaker[Session],
    supplier: KnownSupplier,
    order: BatchOrder,
    limits: IntakeLimits,
    on_accepted: OnAccepted = lambda _batch_id: None,
    *,
    lines: SpooledLines | None = None,
    renew: Callable[[], None] = lambda: None,
) -> UUID:
    """Store a batch of these lines, or of all pending accounts of the supplier. Return its id.

    Wait without a connection while another batch of the organisation is being stored.
    """
    deadline = time.monotonic() + _LONGEST_WAIT
    stored_bytes = lines.stored_bytes if lines else 0

    def store() -> UUID | None:
        with sessions.begin() as session:
            if not lock_storing(session, supplier.organisation_id):
                return None
            _check(session, supplier, order, limits, stored_bytes)
            return start_batch(session, supplier, order, lines, on_accepted=on_accepted)

    while time.monotonic() < deadline:
        # The request cannot be repeated, because its body has been read.
        if batch_id := repeat(sessions, store):
            return batch_id
        renew()
        time.sleep(_PAUSE)
    raise TooManyUploadsError


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
