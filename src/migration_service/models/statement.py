"""Statements from before the migration."""

from datetime import date, datetime
from decimal import Decimal
from typing import Any

from sqlalchemy import UniqueConstraint, func
from sqlalchemy.orm import Mapped, mapped_column

from migration_service.models.account import Account
from migration_service.models.part import Part, Source, document_location, parent_key
from migration_service.models.trace import Traced
from migration_service.states import StatementOrigin


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
