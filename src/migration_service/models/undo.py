"""Undos, which remove accounts before go-live, and the retired numbers of these accounts."""

from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import ARRAY, ForeignKey, SmallInteger, Text, func
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import Mapped, mapped_column

from migration_service.db.base import Base
from migration_service.models.batch import Batch
from migration_service.models.operation import ApiKey, ImportSupplier, Organisation
from migration_service.states import GoLiveState, UndoOutcome, UndoState


class Undo(Base):
    """One run that reverts accounts of one supplier: those of a batch, or named ones."""

    __tablename__ = "undo"

    id: Mapped[UUID] = mapped_column(primary_key=True)
    organisation_id: Mapped[int] = mapped_column(ForeignKey(Organisation.id))
    import_supplier_id: Mapped[int] = mapped_column(ForeignKey(ImportSupplier.id))
    #: The batch whose accounts are reverted, or None if they were named.
    batch_id: Mapped[UUID | None] = mapped_column(ForeignKey(Batch.id))
    #: The reason, without personal data.
    reason: Mapped[str]
    #: The overridden blockers: values of UndoBlocker.
    overrides: Mapped[list[str]] = mapped_column(ARRAY(Text), server_default="{}")
    state: Mapped[str] = mapped_column(server_default=UndoState.RUNNING)
    #: The number of its accounts.
    accounts: Mapped[int] = mapped_column(server_default="0")
    #: The actor, key, request and address that started it.
    started_by: Mapped[str | None]
    api_key_id: Mapped[int | None] = mapped_column(ForeignKey(ApiKey.id))
    request_id: Mapped[str | None]
    address: Mapped[str | None]
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())
    finished_at: Mapped[datetime | None]
    #: When a message was last published for it, or a worker last processed it.
    dispatched_at: Mapped[datetime | None]


class UndoLine(Base):
    """One account of an undo, and its outcome.

    It has no foreign keys, because a million lines are inserted with one statement. It has no personal data.
    """

    __tablename__ = "undo_line"

    undo_id: Mapped[UUID] = mapped_column(primary_key=True)
    #: The position, from 1, in the order of the lines of the batch or of the given numbers.
    position: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    account_import_process_id: Mapped[int]
    #: The account to revert. An account that was created later has another number, and is kept.
    service_account_number: Mapped[str]
    outcome: Mapped[str] = mapped_column(server_default=UndoOutcome.PENDING)
    #: The reasons why it was KEPT: values of UndoBlocker.
    reasons: Mapped[list[str] | None] = mapped_column(ARRAY(Text))
    #: How often the account was locked by others, and when it was last tried.
    tries: Mapped[int] = mapped_column(SmallInteger, server_default="0")
    tried_at: Mapped[datetime | None]
    finished_at: Mapped[datetime | None]


class GoLive(Base):
    """A decision that accounts of one supplier go live: all, those of a batch, or named ones."""

    __tablename__ = "go_live"

    id: Mapped[UUID] = mapped_column(primary_key=True)
    organisation_id: Mapped[int] = mapped_column(ForeignKey(Organisation.id))
    import_supplier_id: Mapped[int] = mapped_column(ForeignKey(ImportSupplier.id))
    #: The batch whose accounts go live, or None if they were named, or if all do.
    batch_id: Mapped[UUID | None] = mapped_column(ForeignKey(Batch.id))
    external_account_numbers: Mapped[list[str] | None] = mapped_column(ARRAY(Text))
    #: The moment that was decided. Workers mark the accounts once it has come.
    live_at: Mapped[datetime]
    #: The person or API key that decided.
    decided_by: Mapped[str | None]
    state: Mapped[str] = mapped_column(server_default=GoLiveState.PENDING)
    #: The account number up to which all of its accounts are marked, and their number.
    place: Mapped[str] = mapped_column(server_default="")
    accounts: Mapped[int] = mapped_column(server_default="0")
    #: The number of held e-mails to customers that were released with them.
    emails: Mapped[int] = mapped_column(server_default="0")
    #: What it relied on: a `receipts.Receipt` as JSON. None for named accounts, or if none was asked for.
    receipt: Mapped[dict[str, Any] | None] = mapped_column(JSONB(none_as_null=True))
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())
    finished_at: Mapped[datetime | None]
    #: When a message was last published for it, or a worker last processed it.
    dispatched_at: Mapped[datetime | None]

    @property
    def is_of_supplier(self) -> bool:
        """Return whether all accounts of the supplier go live."""
        return self.batch_id is None and self.external_account_numbers is None


class RetiredAccountNumber(Base):
    """The number of a reverted account. A trigger prevents its reuse."""

    __tablename__ = "retired_account_number"

    service_account_number: Mapped[str] = mapped_column(primary_key=True)
    retired_at: Mapped[datetime] = mapped_column(server_default=func.now())
