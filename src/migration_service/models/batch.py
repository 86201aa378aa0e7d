"""Batches: a file of payloads, its lines with their outcomes, and the chunks that workers take."""

from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import (
    ARRAY,
    CheckConstraint,
    ForeignKey,
    Index,
    LargeBinary,
    UniqueConstraint,
    Uuid,
    func,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import Mapped, mapped_column

from migration_service.db.base import Base, literals
from migration_service.models.operation import ApiKey, ImportSupplier, OperationsTeam, Organisation
from migration_service.states import (
    BatchKind,
    BatchMode,
    BatchSource,
    BatchState,
    ChunkState,
    LineStatus,
    Profile,
)

#: Modes that create no accounts need no operations team.
_NO_TEAM = [mode for mode in BatchMode if not mode.creates]


class Batch(Base):
    """One run over many accounts of one supplier."""

    __tablename__ = "batch"
    __table_args__ = (
        UniqueConstraint("organisation_id", "idempotency_key", name="uq_batch_idempotency_key"),
        CheckConstraint(f"kind IN ({literals(BatchKind)})", name="kind"),
        CheckConstraint(f"mode IN ({literals(BatchMode)})", name="mode"),
        CheckConstraint(f"source IN ({literals(BatchSource)})", name="source"),
        CheckConstraint(f"state IN ({literals(BatchState)})", name="state"),
        CheckConstraint(
            f"operations_team_id IS NOT NULL OR mode IN ({literals(_NO_TEAM)}) "
            f"OR kind <> '{BatchKind.ACCOUNTS}'",
            name="team_to_create",
        ),
        CheckConstraint(f"profile IN ({literals(Profile)})", name="profile"),
        # For dispatching, which reads the few batches that are not over.
        Index("ix_batch_open", "created_at", postgresql_where=text("finished_at IS NULL")),
    )

    id: Mapped[UUID] = mapped_column(primary_key=True)
    organisation_id: Mapped[int] = mapped_column(ForeignKey(Organisation.id))
    import_supplier_id: Mapped[int] = mapped_column(ForeignKey(ImportSupplier.id), index=True)
    #: What its lines are.
    kind: Mapped[str] = mapped_column(server_default=BatchKind.ACCOUNTS)
    mode: Mapped[str]
    #: For transactions: the arguments of the single endpoint, which apply to every line. For what is pending:
    #: whether it includes older versions.
    options: Mapped[dict[str, Any]] = mapped_column(server_default="{}")
    source: Mapped[str]
    operations_team_id: Mapped[int | None] = mapped_column(ForeignKey(OperationsTeam.id))
    #: Its name, if it was given one, and the name of the file that its lines came in.
    name: Mapped[str | None]
    file_name: Mapped[str | None]
    #: The SHA-256 and the size of the file as it was sent, so of the gzip data if it was sent as such. None
    #: if there was no file, or if the batch is older than these columns.
    file_sha256: Mapped[bytes | None] = mapped_column(LargeBinary)
    file_bytes: Mapped[int | None]
    #: The sums over all lines of the file, as `services.batches.intake.file_totals` counts them.
    file_totals: Mapped[dict[str, Any] | None] = mapped_column(JSONB(none_as_null=True))
    #: What the supplier says the file adds up to. None if it did not say.
    control_totals: Mapped[dict[str, Any] | None] = mapped_column(JSONB(none_as_null=True))
    #: The profile that its lines are validated under, or None for the supplier's own.
    profile: Mapped[str | None]
    #: The rules and the profile when it was started or last retried. If they have changed since, a line that
    #: failed for its content may pass.
    validated_under: Mapped[str | None]
    #: The key that it runs under; None if an operator started it on the command line.
    api_key_id: Mapped[int | None] = mapped_column(ForeignKey(ApiKey.id))
    #: The request that started it, and the address that it came from.
    request_id: Mapped[str | None]
    address: Mapped[str | None]
    state: Mapped[str] = mapped_column(server_default=BatchState.RUNNING)
    #: When the supplier extracted its accounts. They do not replace what is of a later extract.
    extracted_at: Mapped[datetime | None]
    #: Of source `pending`: accounts that were left out, because a newer version of them was refused.
    older_versions: Mapped[int | None]
    #: Why it is WAITING, PAUSED or STOPPED: a code of `errors`.
    reason: Mapped[str | None]
    #: How many lines it has, blank ones not counted.
    lines: Mapped[int] = mapped_column(server_default="0")
    #: What its lines take of the organisation's quota.
    stored_bytes: Mapped[int] = mapped_column(server_default="0")
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())
    #: When its first chunk was taken.
    started_at: Mapped[datetime | None]
    finished_at: Mapped[datetime | None]
    idempotency_key: Mapped[str | None]
    #: The hash of the request and its file. A repeated request with the same key must have the same hash.
    request_sha256: Mapped[bytes | None] = mapped_column(LargeBinary)
    #: When its lines were removed, after their retention time.
    lines_removed_at: Mapped[datetime | None]
    #: The error threshold, as `services.batches.error_thresholds` has it. None if it has none.
    brake: Mapped[dict[str, Any] | None] = mapped_column(JSONB(none_as_null=True))
    #: When it was last resumed or retried. The brake counts only chunks that were worked on since.
    brake_since: Mapped[datetime | None]
    #: When it last began to run: when its lines were stored, or when it was resumed or retried, or its window
    #: or its supplier let it go on. None if a process of an older version started it.
    runs_since: Mapped[datetime | None]
    #: No line is begun from this moment on: the end of the window of its wave. None: no such moment.
    runs_until: Mapped[datetime | None]
    #: At most so many lines are worked on in a minute. None: as many as there are workers for.
    lines_per_minute: Mapped[int | None]


class BatchLine(Base):
    """One line of the file: its text and its outcome.

    It has no foreign keys, because a million lines are written with one COPY, and removed with one DELETE.
    """

    __tablename__ = "batch_line"
    __table_args__ = (
        CheckConstraint(f"status IN ({literals(LineStatus)})", name="status"),
        # For the lines of a chunk of added data.
        Index(
            "ix_batch_line_chunk",
            "batch_id",
            "chunk_line",
            "line_number",
            postgresql_where=text("chunk_line IS NOT NULL"),
        ),
        # For the question whether an account is still to come.
        Index(
            "ix_batch_line_account",
            "batch_id",
            "external_account_number",
            postgresql_where=text("chunk_line IS NULL"),
        ),
        # The text is stored outside the row, and half of each page is left free for the outcome. Writing the
        # outcome then changes neither the text nor the index.
        {"postgresql_with": {"toast_tuple_target": "128", "fillfactor": "50"}},
    )

    batch_id: Mapped[UUID] = mapped_column(primary_key=True)
    #: The number of the line in the file, from 1, blank lines counted: `sed -n 17p` shows line 17.
    line_number: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    #: The first line of its chunk, if the chunk has all lines of some accounts; None if the chunk is a range.
    chunk_line: Mapped[int | None]
    #: The line as it was sent. None if the payload is staged (source `pending`), or the line was too long.
    payload: Mapped[bytes | None] = mapped_column(LargeBinary)
    external_account_number: Mapped[str | None]
    #: The staged payload of a line of source `pending`.
    account_import_process_id: Mapped[int | None]
    status: Mapped[str] = mapped_column(server_default=LineStatus.PENDING)
    service_account_number: Mapped[str | None]
    #: What staging its payload did. None if nothing was staged.
    staging_result: Mapped[str | None]
    #: Objects of detail, code, attr.
    errors: Mapped[list[Any] | None]
    #: Of a line that was retried: when it had failed at first. What came of its account after that is newer.
    failed_at: Mapped[datetime | None]
    warnings: Mapped[list[Any] | None]


class BatchChunk(Base):
    """Some lines of a batch that a worker takes together.

    A chunk of accounts is a range of lines. A chunk of added data has every line of some accounts, because
    they are worked on in their order; those lines name it in `chunk_line`.
    """

    __tablename__ = "batch_chunk"
    __table_args__ = (
        CheckConstraint(f"state IN ({literals(ChunkState)})", name="state"),
        # For finding the chunks to dispatch, those that were lost, and whether a batch is complete.
        Index(
            "ix_batch_chunk_open",
            "batch_id",
            "first_line",
            postgresql_where=text(f"state <> '{ChunkState.DONE}'"),
        ),
        # For brakes, which count the chunks that were worked on last.
        Index("ix_batch_chunk_worked", "batch_id", "worked_at"),
        # Chunks with slots, which are as few as there are workers.
        Index("ix_batch_chunk_working", "batch_id", postgresql_where=text("attempts IS NOT NULL")),
    )

    batch_id: Mapped[UUID] = mapped_column(ForeignKey(Batch.id, ondelete="CASCADE"), primary_key=True)
    first_line: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    last_line: Mapped[int]
    #: Whether it has the lines that name it, and not those of the range.
    by_account: Mapped[bool] = mapped_column(server_default=text("false"))
    #: Lines of it are deferred, and not worked on before this.
    not_before: Mapped[datetime | None]
    #: When the first of these lines was deferred.
    deferred_since: Mapped[datetime | None]
    state: Mapped[str] = mapped_column(server_default=ChunkState.PENDING)
    #: When its message was last published, or a worker last took it.
    dispatched_at: Mapped[datetime | None]
    #: The attempts, and so the slots, of the worker that has it. Those of any other worker are void.
    attempts: Mapped[list[UUID] | None] = mapped_column(ARRAY(Uuid))
    #: How many workers took it and died.
    tries: Mapped[int] = mapped_column(server_default="0")
    #: Lines by status, and by the codes of their errors and warnings. They are counted from the lines each
    #: time a worker finishes.
    counts: Mapped[dict[str, Any]] = mapped_column(server_default="{}")
    error_counts: Mapped[dict[str, Any]] = mapped_column(server_default="{}")
    warning_counts: Mapped[dict[str, Any]] = mapped_column(server_default="{}")
    #: Lines by what staging did.
    staging_counts: Mapped[dict[str, Any]] = mapped_column(server_default="{}")
    #: For brakes: how many lines have an outcome, and the FAILED ones by all codes of their errors together,
    #: in alphabetical order with blanks between them.
    done: Mapped[int] = mapped_column(server_default="0")
    failures: Mapped[dict[str, Any]] = mapped_column(server_default="{}")
    #: For brakes that count warnings: the lines with warnings that have an outcome, by the codes of their
    #: errors if they FAILED, `|`, and the codes of their warnings. None: not counted by an older version.
    warned: Mapped[dict[str, Any] | None] = mapped_column(JSONB(none_as_null=True))
    #: Lines that were worked on since the chunk was last opened, from which the rate is calculated.
    worked: Mapped[int] = mapped_column(server_default="0")
    finished_at: Mapped[datetime | None]
    #: When a worker last gave lines of it their outcome.
    worked_at: Mapped[datetime | None]
    #: When a worker last released it because no slots were free.
    throttled_at: Mapped[datetime | None]
    #: Of the time that its last piece took, the share for which the worker was ready and waited for a
    #: processor, from 0 to 1. None if the system does not say it.
    processor_wait: Mapped[float | None]
    #: How often a line failed before an attempt began. It never decreases, because the metric that is made
    #: from it is a counter.
    refused: Mapped[int] = mapped_column(server_default="0")
