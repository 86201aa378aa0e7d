"""What is added to accounts, with the origin of its rows: notes, statements and payment instructions."""

from datetime import date, datetime
from decimal import Decimal
from typing import Any

from sqlalchemy import ForeignKey, Identity, LargeBinary, UniqueConstraint, func
from sqlalchemy.orm import Mapped, mapped_column

from migration_service.db.base import Base
from migration_service.models.account import Account
from migration_service.models.operation import Organisation
from migration_service.models.part import Part, Source, document_location, parent_key
from migration_service.states import StatementOrigin


class Traced:
    """The origin of a row that a request added: the key, the request and the client's address.

    All are None for a row that was added by an operator or came with the payload. There is no foreign key,
    because keys are never removed, and a check for each row would cost more than the column.
    """

    api_key_id: Mapped[int | None] = mapped_column(info={"trace": True})
    request_id: Mapped[str | None] = mapped_column(info={"trace": True})
    address: Mapped[str | None] = mapped_column(info={"trace": True})


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


class Statement(Traced, Part):
    """A bill from the supplier to the customer, and the location of its PDF."""

    __tablename__ = "statement"
    __table_args__ = (UniqueConstraint("account_pk", "statement_id"),)
    sources = (Source(Account, "statements", constants=(("origin", StatementOrigin.PAYLOAD),)),)

    account_pk: Mapped[int] = parent_key(Account)
    origin: Mapped[str] = mapped_column(server_default=StatementOrigin.PAYLOAD, info={"constant": True})
    statement_id: Mapped[str]
    #: The invoice number. Transactions refer to it as their associated_invoice_number.
    number: Mapped[str]
    issued_date: Mapped[date]
    bill_period_from_date: Mapped[date]
    bill_period_to_date: Mapped[date]
    #: In cents.
    gross_amount: Mapped[Decimal]
    statement_path: Mapped[str | None]
    statement_location: Mapped[str | None] = document_location("statement_path")
    statement_pdf_context: Mapped[dict[str, Any] | None]
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())


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
