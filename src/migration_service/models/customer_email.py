"""Customer e-mails and whether they were sent."""

from datetime import datetime

from sqlalchemy import CheckConstraint, ForeignKey, Identity, Index, func, text
from sqlalchemy.orm import Mapped, mapped_column

from migration_service.db.base import Base, literals
from migration_service.models.account import Customer
from migration_service.states import EmailState


class CustomerEmail(Base):
    """The welcome for one customer of a created account, recorded together with the account."""

    __tablename__ = "customer_email"
    __table_args__ = (
        CheckConstraint(f"state IN ({literals(EmailState)})", name="state"),
        CheckConstraint(f"(state = '{EmailState.SENT}') = (sent_at IS NOT NULL)", name="sent_at"),
        Index(
            "ix_customer_email_due", "next_try_at", postgresql_where=text(f"state = '{EmailState.PENDING}'")
        ),
    )

    id: Mapped[int] = mapped_column(Identity(), primary_key=True)
    #: The recipient. The address is the customer's.
    customer_pk: Mapped[int] = mapped_column(ForeignKey(Customer.id), unique=True)
    state: Mapped[str] = mapped_column(server_default=EmailState.PENDING)
    #: Recorded before the first try, so that a retry has the same one.
    message_id: Mapped[str | None]
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())
    #: When it is dispatched to a worker next. It is postponed by each dispatch and each failure.
    next_try_at: Mapped[datetime] = mapped_column(server_default=func.now())
    #: How often sending has failed, and the last error.
    failures: Mapped[int] = mapped_column(server_default="0")
    error: Mapped[str | None]
    sent_at: Mapped[datetime | None]
