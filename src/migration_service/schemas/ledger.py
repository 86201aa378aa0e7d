"""Ledgers and financial transactions (sections 2.3 and 2.5). Amounts are in euros."""

from migration_service.schemas.base import Fields
from migration_service.schemas.fields import (
    Choice,
    Day,
    Ean,
    Identifier,
    Number,
    Object,
    Objects,
    Text,
    Values,
)
from migration_service.schemas.vocabulary import PaymentType, RateBand, Reason, SupplyType, TransactionType


class LineItemParamsSchema(Fields):
    """What a line item carries beside its amounts."""

    ref = Identifier(metadata={"description": "Named by `vat_on` of the tax item on this line."})


class LineItemSchema(Fields):
    """One line of a supply charge."""

    rate_band = Choice(RateBand, required=True)
    start_date = Day()
    end_date = Day()
    number_of_units = Number()
    price_per_unit = Number()
    net_amount = Number(required=True)
    units = Values(Number(), metadata={"description": "The meter readings at the start and the end."})
    params = Object(LineItemParamsSchema)


class TaxItemParamsSchema(Fields):
    """What a tax item carries beside its amounts."""

    vat_on = Identifier(metadata={"description": "The `ref` of the line item taxed."})


class TaxItemSchema(Fields):
    """Tax on a supply charge."""

    amount = Number(required=True)
    tax_type = Identifier(required=True, metadata={"example": "VAT"})
    rate = Number()
    unit_type = Identifier(metadata={"example": "PROPORTION"})
    value_taxed = Number()
    params = Object(TaxItemParamsSchema)


class TransactionSchema(Fields):
    """A financial transaction (section 2.5)."""

    transaction_id = Identifier(required=True)
    transaction_date = Day(required=True)
    amount = Number(required=True)
    type = Choice(TransactionType, required=True)
    reason = Choice(Reason)
    reference = Text(blank=True)
    payment_type = Choice(PaymentType)
    display_note = Text(blank=True, max_length=2_000, metadata={"description": "The customer sees it."})
    note = Text(blank=True, max_length=2_000, metadata={"description": "Internal."})
    associated_invoice_number = Identifier()
    supply_type = Choice(SupplyType)
    product_code = Identifier()
    line_items = Objects(LineItemSchema)
    tax_items = Objects(TaxItemSchema)


class LedgerSchema(Fields):
    """An account's balance and what made it. Credit is positive."""

    identifiers = Values(Ean())
    last_settlement_balance = Number()
    last_settlement_closing_date = Day()
    last_settlement_issue_date = Day()
    ledger_code = Identifier(required=True, metadata={"example": "ENERGY_LEDGER"})
    ledger_balance = Number(required=True)
    transactions_in_open_settlement_period = Objects(TransactionSchema)
    historical_statement_transactions = Objects(TransactionSchema)
