"""Notes that were added to an account."""

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
    # The account's lock prevents a second note that is the same. This is for code that forgets the lock.
    __table_args__ = (UniqueConstraint("account_pk", "sameness_sha256", "created_at", name="uq_note_same"),)

    id: Mapped[int] = mapped_column(Identity(), primary_key=True)
    account_pk: Mapped[int] = mapped_column(ForeignKey(Account.id))
    body: Mapped[str | None]
    #: Objects of document_path and its resolved document_location (section 2.1).
    documents: Mapped[list[Any]]
    #: When the note was written, as sent. If it was not sent, when it was added, in whole seconds.
    created_at: Mapped[datetime]
    #: When it was added; None for notes that were added before this was kept.
    added_at: Mapped[datetime | None] = mapped_column(server_default=func.now())
    #: At the top of the page, until `unpin_at` where there is one.
    is_pinned: Mapped[bool]
    unpin_at: Mapped[datetime | None]
    #: The hash of what makes two notes the same: the body, or the document paths if it has no body.
    sameness_sha256: Mapped[bytes] = mapped_column(LargeBinary)
