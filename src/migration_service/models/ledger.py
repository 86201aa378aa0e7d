"""Ledgers, their transactions, and the parts of a supply charge. Amounts are in euros."""

from datetime import date, datetime
from decimal import Decimal

from sqlalchemy import ForeignKey, UniqueConstraint, func
from sqlalchemy.orm import Mapped, mapped_column

from migration_service.models.account import Account
from migration_service.models.added_data import Traced
from migration_service.models.part import Part, Source, parent_key, value_at
from migration_service.states import TransactionPeriod


class Ledger(Part):
    """An account's running balance. Credit is positive."""

    __tablename__ = "ledger"
    __table_args__ = (UniqueConstraint("account_pk", "ledger_code"),)
    sources = (Source(Account, "ledgers", default=[{"ledger_code": "ENERGY_LEDGER", "ledger_balance": 0}]),)

    account_pk: Mapped[int] = parent_key(Account)
    ledger_code: Mapped[str]
    #: EANs of the meter points whose charges belong to this ledger.
    identifiers: Mapped[list[str] | None]
    last_settlement_balance: Mapped[Decimal | None]
    last_settlement_closing_date: Mapped[date | None]
    last_settlement_issue_date: Mapped[date | None]
    #: The current balance: the staged one plus all transactions added later.
    ledger_balance: Mapped[Decimal]


class Transaction(Traced, Part):
    """A financial transaction (section 2.5)."""

    __tablename__ = "transaction"
    __table_args__ = (UniqueConstraint("account_pk", "transaction_id"),)
    sources = (
        Source(
            Ledger, "transactions_in_open_settlement_period", constants=(("period", TransactionPeriod.OPEN),)
        ),
        Source(
            Ledger, "historical_statement_transactions", constants=(("period", TransactionPeriod.HISTORICAL),)
        ),
    )

    ledger_pk: Mapped[int] = parent_key(Ledger)
    #: The ledger's account, within which a transaction_id is unique.
    account_pk: Mapped[int] = mapped_column(ForeignKey(Account.id), info={"root": True})
    period: Mapped[str] = mapped_column(info={"constant": True})
    transaction_id: Mapped[str]
    transaction_date: Mapped[date]
    amount: Mapped[Decimal]
    type: Mapped[str]
    reason: Mapped[str | None]
    reference: Mapped[str | None]
    payment_type: Mapped[str | None]
    display_note: Mapped[str | None]
    note: Mapped[str | None]
    associated_invoice_number: Mapped[str | None]
    supply_type: Mapped[str | None]
    product_code: Mapped[str | None]
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())


class LineItem(Part):
    """One line of a supply charge."""

    __tablename__ = "line_item"
    sources = (Source(Transaction, "line_items"),)

    transaction_pk: Mapped[int] = parent_key(Transaction)
    rate_band: Mapped[str]
    start_date: Mapped[date | None]
    end_date: Mapped[date | None]
    number_of_units: Mapped[Decimal | None]
    price_per_unit: Mapped[Decimal | None]
    net_amount: Mapped[Decimal]
    #: The meter readings at the start and end of the period.
    units: Mapped[list[Decimal] | None]
    ref: Mapped[str | None] = value_at("params", "ref")


class TaxItem(Part):
    """Tax on a supply charge. `vat_on` is the `ref` of the taxed line item."""

    __tablename__ = "tax_item"
    sources = (Source(Transaction, "tax_items"),)

    transaction_pk: Mapped[int] = parent_key(Transaction)
    amount: Mapped[Decimal]
    tax_type: Mapped[str]
    rate: Mapped[Decimal | None]
    unit_type: Mapped[str | None]
    value_taxed: Mapped[Decimal | None]
    vat_on: Mapped[str | None] = value_at("params", "vat_on")
