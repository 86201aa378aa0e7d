"""Notes on accounts."""

from datetime import datetime
from typing import Any

from sqlalchemy import ForeignKey, Identity, LargeBinary, UniqueConstraint, func
from sqlalchemy.orm import Mapped, mapped_column

from migration_service.db.base import Base
from migration_service.models.account import Account
from migration_service.models.trace import Traced


class Note(Traced, Base):
    """A note on the account's support page (section 2.6)."""

    __tablename__ = "note"
    # The lock of the account prevents duplicate notes. This index is for code that forgets the lock.
    __table_args__ = (UniqueConstraint("account_pk", "sameness_sha256", "created_at", name="uq_note_same"),)

    id: Mapped[int] = mapped_column(Identity(), primary_key=True)
    account_pk: Mapped[int] = mapped_column(ForeignKey(Account.id))
    body: Mapped[str | None]
    #: Objects with document_path and the resolved document_location (section 2.1).
    documents: Mapped[list[Any]]
    #: When the note was written, as sent, or by default when it was added, in whole seconds.
    created_at: Mapped[datetime]
    #: When it was added, or None for notes older than this column.
    added_at: Mapped[datetime | None] = mapped_column(server_default=func.now())
    #: Whether it is at the top of the page, until `unpin_at` if that is set.
    is_pinned: Mapped[bool]
    unpin_at: Mapped[datetime | None]
    #: A hash that is equal for notes that are the same: of the body, or of the document paths without a body.
    sameness_sha256: Mapped[bytes] = mapped_column(LargeBinary)
