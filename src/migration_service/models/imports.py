"""The unit of migration and its attempts, which determine the effect of Celery messages."""

from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import ForeignKey, Identity, LargeBinary, UniqueConstraint, func, text
from sqlalchemy.orm import Mapped, mapped_column

from migration_service.db.base import Base
from migration_service.models.operation import ApiKey, ImportSupplier, OperationsTeam
from migration_service.states import ImportState


class AccountImportProcess(Base):
    """The import of an account of a supplier (section 2.4). It exists once the account is staged."""

    __tablename__ = "account_import_process"
    __table_args__ = (
        UniqueConstraint(
            "import_supplier_id", "external_account_number", name="uq_account_import_process_pair"
        ),
    )

    id: Mapped[int] = mapped_column(Identity(), primary_key=True)
    import_supplier_id: Mapped[int] = mapped_column(ForeignKey(ImportSupplier.id))
    external_account_number: Mapped[str]
    state: Mapped[str] = mapped_column(server_default=ImportState.PENDING)
    #: The validated payload. None after the retention period of an imported account.
    payload: Mapped[dict[str, Any] | None]
    payload_sha256: Mapped[bytes] = mapped_column(LargeBinary)
    #: The hash that PostgreSQL had of the payload when it was staged. Once the payload is removed, of the
    #: account that was equal to it. None if it was not, and once the account is erased.
    content_hash: Mapped[int | None]
    #: The rules and the profile under which it was staged. Processing revalidates it if they have changed.
    rules_version: Mapped[str]
    profile: Mapped[str]
    #: The warnings of staging: objects with detail, code and attr.
    warnings: Mapped[list[Any] | None]
    #: When the payload was staged. Staging the same payload again changes nothing.
    staged_at: Mapped[datetime] = mapped_column(server_default=func.now())
    #: When the supplier sent it last, singly or as the file of a line. Unless extracts decide, what was sent
    #: before does not replace it.
    sent_at: Mapped[datetime] = mapped_column(server_default=func.now())
    #: When the supplier extracted it, or None if it did not say. An earlier extract does not replace it.
    extracted_at: Mapped[datetime | None]
    #: When a newer version was refused, its errors (objects with detail, code and attr), and its batch and
    #: line. None if this is the newest version.
    refused_at: Mapped[datetime | None]
    refused_errors: Mapped[list[Any] | None]
    #: When the supplier extracted that version, or None if it did not say, and when it was sent. An earlier
    #: version does not remove the mark.
    refused_extracted_at: Mapped[datetime | None]
    refused_sent_at: Mapped[datetime | None]
    #: Its payload, if it is valid: it can replace the account that exists.
    refused_payload: Mapped[dict[str, Any] | None]
    refused_batch_id: Mapped[UUID | None]
    refused_line_number: Mapped[int | None]
    #: The key, request and address that staged the payload. There is no foreign key, because keys are never
    #: removed, and a check for each staged account would cost more than the column.
    staged_by_api_key_id: Mapped[int | None]
    staged_request_id: Mapped[str | None]
    staged_address: Mapped[str | None]
    #: The attempt that may create the account. A message for any other attempt is void.
    attempt_id: Mapped[UUID | None]
    #: When the attempt was last given to the workers, and how often. The time is None while it waits for its
    #: turn to run alone.
    dispatched_at: Mapped[datetime | None]
    tries: Mapped[int] = mapped_column(server_default="0")
    #: Whether the attempt runs alone: a dry run, or an attempt that a set could not create.
    runs_alone: Mapped[bool] = mapped_column(server_default=text("false"))
    #: Whether an attempt of it has ever failed or been withdrawn.
    has_failed: Mapped[bool] = mapped_column(server_default=text("false"))
    #: Set together with the account, so that lists need no join.
    service_account_number: Mapped[str | None]
    account_created_at: Mapped[datetime | None]


class SkipMark(Base):
    """A skip mark of an account. It is not an import process, so status and lists omit it."""

    __tablename__ = "skip_mark"

    import_supplier_id: Mapped[int] = mapped_column(ForeignKey(ImportSupplier.id), primary_key=True)
    external_account_number: Mapped[str] = mapped_column(primary_key=True)
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())
    #: When the account was erased. Data that arrives later is not kept.
    erased_at: Mapped[datetime | None]


class Attempt(Base):
    """One run of account creation, with its origin and its outcome."""

    __tablename__ = "attempt"

    id: Mapped[UUID] = mapped_column(primary_key=True)
    account_import_process_id: Mapped[int] = mapped_column(ForeignKey(AccountImportProcess.id))
    operations_team_id: Mapped[int] = mapped_column(ForeignKey(OperationsTeam.id))
    api_key_id: Mapped[int | None] = mapped_column(ForeignKey(ApiKey.id))
    dry_run: Mapped[bool]
    request_id: Mapped[str | None]
    #: The client's address.
    address: Mapped[str | None]
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())
    finished_at: Mapped[datetime | None]
    outcome: Mapped[str | None]
    service_account_number: Mapped[str | None]
    error_code: Mapped[str | None]
    error_detail: Mapped[str | None]
    errors: Mapped[list[Any] | None]
