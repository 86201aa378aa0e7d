"""Batches: files of payloads, their lines with outcomes, and the chunks that workers process."""

from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import (
    ARRAY,
    ForeignKey,
    LargeBinary,
    UniqueConstraint,
    Uuid,
    func,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import Mapped, mapped_column

from migration_service.db.base import Base
from migration_service.models.operation import ApiKey, ImportSupplier, OperationsTeam, Organisation
from migration_service.states import BatchKind, BatchState, ChunkState, LineStatus


class Batch(Base):
    """A run over many accounts of one supplier."""

    __tablename__ = "batch"
    __table_args__ = (
        UniqueConstraint("organisation_id", "idempotency_key", name="uq_batch_idempotency_key"),
    )

    id: Mapped[UUID] = mapped_column(primary_key=True)
    organisation_id: Mapped[int] = mapped_column(ForeignKey(Organisation.id))
    import_supplier_id: Mapped[int] = mapped_column(ForeignKey(ImportSupplier.id))
    #: The kind of data in its lines.
    kind: Mapped[str] = mapped_column(server_default=BatchKind.ACCOUNTS)
    mode: Mapped[str]
    #: The arguments of the single endpoint for transactions, which apply to every line, and whether older
    #: versions are included for pending accounts.
    options: Mapped[dict[str, Any]] = mapped_column(server_default="{}")
    source: Mapped[str]
    operations_team_id: Mapped[int | None] = mapped_column(ForeignKey(OperationsTeam.id))
    #: The batch's name, if it has one, and the name of the uploaded file.
    name: Mapped[str | None]
    file_name: Mapped[str | None]
    #: The SHA-256 and the size of the file as it was sent, including any compression. None if there was no
    #: file, or if the batch is older than these columns.
    file_sha256: Mapped[bytes | None] = mapped_column(LargeBinary)
    file_bytes: Mapped[int | None]
    #: The totals of all lines of the file; see `migration_payloads.files.totals`.
    file_totals: Mapped[dict[str, Any] | None] = mapped_column(JSONB(none_as_null=True))
    #: The supplier's control totals, or None if it gave none.
    control_totals: Mapped[dict[str, Any] | None] = mapped_column(JSONB(none_as_null=True))
    #: The profile used to validate the lines, or None for the supplier's profile.
    profile: Mapped[str | None]
    #: The rules and the profile when it was started or last retried. If they have changed since, a line that
    #: failed because of its content may pass.
    validated_under: Mapped[str | None]
    #: The key that it runs under, or None if an operator started it.
    api_key_id: Mapped[int | None] = mapped_column(ForeignKey(ApiKey.id))
    #: The request that started it, and the client's address.
    request_id: Mapped[str | None]
    address: Mapped[str | None]
    state: Mapped[str] = mapped_column(server_default=BatchState.RUNNING)
    #: When the supplier extracted its accounts. They never replace versions from a later extract.
    extracted_at: Mapped[datetime | None]
    #: The number of pending accounts left out because a newer version was refused.
    older_versions: Mapped[int | None]
    #: The reason why it is WAITING, PAUSED or STOPPED: a code of `errors`.
    reason: Mapped[str | None]
    #: The number of its non-blank lines.
    lines: Mapped[int] = mapped_column(server_default="0")
    #: The share of its lines in the organisation's quota, in bytes.
    stored_bytes: Mapped[int] = mapped_column(server_default="0")
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())
    #: When a worker took its first chunk, or the first one of a retry after the batch had ended.
    started_at: Mapped[datetime | None]
    finished_at: Mapped[datetime | None]
    idempotency_key: Mapped[str | None]
    #: The hash of the request and its file. A repeated request with the same key must have the same hash.
    request_sha256: Mapped[bytes | None] = mapped_column(LargeBinary)
    #: When its lines were removed at the end of their retention period.
    lines_removed_at: Mapped[datetime | None]
    #: How many of them were open then: refused, and never processed. None if they were not counted.
    removed_refused: Mapped[int | None]
    removed_waiting: Mapped[int | None]
    #: The error threshold in its stored form (`services.batches.error_thresholds`), or None.
    brake: Mapped[dict[str, Any] | None] = mapped_column(JSONB(none_as_null=True))
    #: When it was last resumed or retried. The error threshold counts only chunks processed since.
    brake_since: Mapped[datetime | None]
    #: When it last started running: its lines were stored, it was resumed or retried, its window opened, or
    #: its supplier was resumed. None if a process of an older version started it.
    runs_since: Mapped[datetime | None]
    #: The end of its wave's window, after which no line is started, or None if there is no window.
    runs_until: Mapped[datetime | None]
    #: The largest number of lines processed in a minute, or None for no limit.
    lines_per_minute: Mapped[int | None]


class BatchLine(Base):
    """A line of the file, with its text and its outcome.

    It has no foreign keys, because a million lines are inserted with one COPY and removed with one DELETE.
    """

    __tablename__ = "batch_line"

    batch_id: Mapped[UUID] = mapped_column(primary_key=True)
    #: The number of the line in the file, from 1 and including blank lines: `sed -n 17p` shows line 17.
    line_number: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    #: The first line of its chunk, if the chunk has all lines of some accounts. None if the chunk is a range.
    chunk_line: Mapped[int | None]
    #: The line as it was sent. None if the payload is staged (source `pending`), or the line was too long.
    payload: Mapped[bytes | None] = mapped_column(LargeBinary)
    external_account_number: Mapped[str | None]
    #: The number that a line means if it is another, as 12 for 12.0, or if it has none that is valid. For
    #: erasure.
    meant_number: Mapped[str | None]
    #: The staged payload of a line of source `pending`.
    account_import_process_id: Mapped[int | None]
    status: Mapped[str] = mapped_column(server_default=LineStatus.PENDING)
    service_account_number: Mapped[str | None]
    #: The effect of staging its payload, or None if nothing was staged.
    staging_result: Mapped[str | None]
    #: Objects with detail, code and attr.
    errors: Mapped[list[Any] | None]
    warnings: Mapped[list[Any] | None]
    #: The items of an added line as the worker read them: the identity and the amount of each. To compare
    #: them with the account, nothing reads the text of the line again.
    understood: Mapped[list[Any] | None]


class BatchChunk(Base):
    """A chunk: some lines of a batch that a worker processes together.

    A chunk of accounts is a range of lines. A chunk of added data has all lines of some accounts, because
    these are processed in order. Its lines refer to it in `chunk_line`.
    """

    __tablename__ = "batch_chunk"

    batch_id: Mapped[UUID] = mapped_column(ForeignKey(Batch.id, ondelete="CASCADE"), primary_key=True)
    first_line: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    last_line: Mapped[int]
    #: Whether its lines are those that refer to it, instead of those in the range.
    by_account: Mapped[bool] = mapped_column(server_default=text("false"))
    #: The earliest time to retry its deferred lines.
    not_before: Mapped[datetime | None]
    #: When the first of its deferred lines was deferred.
    deferred_since: Mapped[datetime | None]
    state: Mapped[str] = mapped_column(server_default=ChunkState.PENDING)
    #: When its message was last published, or a worker last claimed it.
    dispatched_at: Mapped[datetime | None]
    #: The attempts, and thus the slots, of the worker that holds it. The attempts of any other worker are
    #: void.
    attempts: Mapped[list[UUID] | None] = mapped_column(ARRAY(Uuid))
    #: The number of workers that died while processing it.
    tries: Mapped[int] = mapped_column(server_default="0")
    #: The numbers of lines by status, and by code of their errors and warnings. They are recounted each time
    #: a worker finishes.
    counts: Mapped[dict[str, Any]] = mapped_column(server_default="{}")
    error_counts: Mapped[dict[str, Any]] = mapped_column(server_default="{}")
    warning_counts: Mapped[dict[str, Any]] = mapped_column(server_default="{}")
    #: The number of lines by effect of staging.
    staging_counts: Mapped[dict[str, Any]] = mapped_column(server_default="{}")
    #: The counts of error thresholds: lines with an outcome, and FAILED lines by the codes of their errors,
    #: joined with spaces in alphabetical order.
    done: Mapped[int] = mapped_column(server_default="0")
    failures: Mapped[dict[str, Any]] = mapped_column(server_default="{}")
    #: The same for thresholds that count warnings: lines with warnings and an outcome, by the codes of their
    #: errors if they FAILED, `|`, and the codes of their warnings. None if an older version counted.
    warned: Mapped[dict[str, Any] | None] = mapped_column(JSONB(none_as_null=True))
    #: The number of lines processed since the chunk was last opened, for the rate.
    worked: Mapped[int] = mapped_column(server_default="0")
    finished_at: Mapped[datetime | None]
    #: When a worker last recorded outcomes of its lines.
    worked_at: Mapped[datetime | None]
    #: When a worker last released it because no slots were free.
    throttled_at: Mapped[datetime | None]
    #: The share of its last piece's duration, from 0 to 1, for which the worker waited for a processor. None
    #: if the system does not report it.
    processor_wait: Mapped[float | None]
    #: How often a line failed before an attempt started. It never decreases, because it feeds a counter
    #: metric.
    refused: Mapped[int] = mapped_column(server_default="0")
