"""Certificates of what was migrated, with the leaves of their accounts."""

from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import ForeignKey, LargeBinary, func
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import Mapped, mapped_column

from migration_service.db.base import Base
from migration_service.models.batch import Batch
from migration_service.models.operation import ImportSupplier, Organisation


class Certificate(Base):
    """A certificate of a supplier's book, or of the accounts of one batch, which workers make in pieces."""

    __tablename__ = "certificate"

    id: Mapped[UUID] = mapped_column(primary_key=True)
    organisation_id: Mapped[int] = mapped_column(ForeignKey(Organisation.id))
    import_supplier_id: Mapped[int] = mapped_column(ForeignKey(ImportSupplier.id))
    batch_id: Mapped[UUID | None] = mapped_column(ForeignKey(Batch.id))
    requested_by: Mapped[str]
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())
    finished_at: Mapped[datetime | None]
    #: When a message was last published for it, or a worker last did a piece of it.
    dispatched_at: Mapped[datetime | None]
    #: After which account or line the next piece begins. None at its beginning.
    place: Mapped[dict[str, Any] | None] = mapped_column(JSONB(none_as_null=True))
    accounts: Mapped[int] = mapped_column(server_default="0")
    #: How many of them the platform owned.
    owned: Mapped[int] = mapped_column(server_default="0")
    #: The lines before those of the accounts: head, signature and parts. None until it has ended.
    beginning: Mapped[str | None]


class CertificateLeaf(Base):
    """An account of a certificate. After an erasure only its leaf is left, and its numbers.

    It has no foreign key, because a million are inserted.
    """

    __tablename__ = "certificate_leaf"

    certificate_id: Mapped[UUID] = mapped_column(primary_key=True)
    #: Its place in the certificate, from 1.
    number: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    external_account_number: Mapped[str]
    leaf: Mapped[bytes] = mapped_column(LargeBinary)
    #: Of the last account of each subtree, the root of that.
    subtree: Mapped[bytes | None] = mapped_column(LargeBinary)
    #: What the leaf is the hash of: the numbers, the salted hashes and the salt.
    entry: Mapped[str | None]
