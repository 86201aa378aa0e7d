"""Payment vendors, and the instructions confirmed by them."""

from datetime import datetime
from decimal import Decimal
from typing import Any

from sqlalchemy import ForeignKey, Identity, UniqueConstraint, func
from sqlalchemy.orm import Mapped, mapped_column

from migration_service.db.base import Base
from migration_service.models.account import Account
from migration_service.models.operation import Organisation
from migration_service.models.trace import Traced


class PaymentVendor(Base):
    """An upstream payment vendor set up by an operator (section 4.11)."""

    __tablename__ = "payment_vendor"
    __table_args__ = (UniqueConstraint("organisation_id", "name"),)

    id: Mapped[int] = mapped_column(Identity(), primary_key=True)
    #: The organisation that may name it, or None if every organisation may.
    organisation_id: Mapped[int | None] = mapped_column(ForeignKey(Organisation.id))
    name: Mapped[str]
    #: The interface of the vendor.
    kind: Mapped[str]
    url: Mapped[str]
    #: The environment variable with the secret, which is never stored.
    secret_env: Mapped[str | None]
    #: The calls per second from the batches of all workers together.
    calls_per_second: Mapped[Decimal] = mapped_column(server_default="10")
    #: The time before which batches do not call it.
    next_call_at: Mapped[datetime | None]
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())


class PaymentInstruction(Traced, Base):
    """A means of payment of an account: the vendor's reference to a card or a mandate (section 2.8)."""

    __tablename__ = "payment_instruction"
    __table_args__ = (
        UniqueConstraint(
            "account_pk", "payment_vendor_pk", "reference", "type", name="uq_payment_instruction_same"
        ),
    )

    id: Mapped[int] = mapped_column(Identity(), primary_key=True)
    account_pk: Mapped[int] = mapped_column(ForeignKey(Account.id))
    payment_vendor_pk: Mapped[int] = mapped_column(ForeignKey(PaymentVendor.id))
    reference: Mapped[str]
    type: Mapped[str]
    #: Details returned by the vendor, without secrets or card numbers.
    details: Mapped[dict[str, Any]]
    #: The vendor's name for the customer, and the account of the instruction according to the vendor.
    customer_reference: Mapped[str | None]
    account_reference: Mapped[str | None]
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())
