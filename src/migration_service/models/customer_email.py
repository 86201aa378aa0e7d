"""Messages that are recorded and later sent, to customers and to the people who run a migration."""

from datetime import datetime

from sqlalchemy import ForeignKey, Identity, UniqueConstraint, func
from sqlalchemy.orm import Mapped, mapped_column

from migration_service.db.base import Base
from migration_service.models.account import Customer
from migration_service.states import EmailState


class OutgoingEmail:
    """The columns of every message. `services.emails.outbox` sends them."""

    id: Mapped[int] = mapped_column(Identity(), primary_key=True)
    state: Mapped[str] = mapped_column(server_default=EmailState.PENDING)
    #: Recorded before the first attempt, so that a retry uses the same one.
    message_id: Mapped[str | None]
    #: When it was recorded, or else released.
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())
    #: When it is due. A worker that takes it, and each failure, postpones it.
    next_try_at: Mapped[datetime] = mapped_column(server_default=func.now())
    #: Until when a worker may be sending it. An undo leaves its account alone until then.
    leased_until: Mapped[datetime | None]
    #: The number of failed attempts to send it, and the last error.
    failures: Mapped[int] = mapped_column(server_default="0")
    error: Mapped[str | None]
    sent_at: Mapped[datetime | None]


class CustomerEmail(OutgoingEmail, Base):
    """The welcome message to a customer of a created account, recorded together with the account."""

    __tablename__ = "customer_email"

    #: The organisation that takes its turn with it.
    organisation_id: Mapped[int]
    #: The supplier of the account, which determines when it is sent.
    import_supplier_id: Mapped[int]
    #: The recipient. The address is the customer's.
    customer_pk: Mapped[int] = mapped_column(ForeignKey(Customer.id), unique=True)


class AlertEmail(OutgoingEmail, Base):
    """A message to a person who runs a migration, about an event that needs them."""

    __tablename__ = "alert_email"
    __table_args__ = (UniqueConstraint("event", "recipient"),)

    #: The key of the event, with its subject and time, so that each recipient is told once.
    event: Mapped[str]
    recipient: Mapped[str]
    subject: Mapped[str]
    body: Mapped[str]
