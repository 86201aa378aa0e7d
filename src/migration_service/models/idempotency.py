"""The stored answers to requests with an Idempotency-Key, and to the forms of the console."""

from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import LargeBinary, func
from sqlalchemy.orm import Mapped, mapped_column

from migration_service.db.base import Base


class IdempotencyKey(Base):
    """A key that was used at an endpoint, and the answer to its request."""

    __tablename__ = "idempotency_key"

    #: 0 for a form of the console.
    organisation_id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    endpoint: Mapped[str] = mapped_column(primary_key=True)
    key: Mapped[str] = mapped_column(primary_key=True)
    #: The hash of everything in the request that matters. A different request with the same key is an error.
    request_sha256: Mapped[bytes] = mapped_column(LargeBinary)
    #: For the process endpoint, the id of the attempt. For those of webhooks, the id of the webhook.
    claim_id: Mapped[UUID]
    #: The answer. None if it is the outcome of the attempt.
    status: Mapped[int | None]
    headers: Mapped[dict[str, Any] | None]
    body: Mapped[bytes | None] = mapped_column(LargeBinary)
    #: The account that the request names, for erasure.
    import_supplier: Mapped[str | None]
    external_account_number: Mapped[str | None]
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())
