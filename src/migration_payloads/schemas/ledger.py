"""Ledgers and financial transactions (sections 2.3 and 2.5). Amounts are in euros."""

from migration_payloads.schemas.base import Fields
from migration_payloads.schemas.fields import (
    Choice,
    Day,
    Ean,
    NormalIdentifier,
    Number,
    Object,
    Objects,
    OpenChoice,
    Text,
    Values,
)
from migration_payloads.schemas.vocabulary import PaymentType, RateBand, Reason, SupplyType, TransactionType

_EUROS = "in euros"
_CREDIT = "in euros; positive if the customer has credit, negative if the customer owes"


class LineItemParamsSchema(Fields):
    """The members of a line item besides its amounts."""

    ref = NormalIdentifier(
        "The line's name, which `vat_on` of a tax item refers to.", "line-1", personal=False, erased=True
    )


class LineItemSchema(Fields):
    """One line of a supply charge."""

    rate_band = OpenChoice(
        RateBand, "The thing that the line charges for.", "CONSUMPTION_STANDARD", required=True
    )
    start_date = Day("First day that the line charges for.", "2026-02-01", personal=False)
    end_date = Day("Last day that the line charges for, inclusive.", "2026-02-28", personal=False)
    number_of_units = Number(
        "The number of units charged.", 214.5, unit="in kWh, m³ or days, as the band is priced", erased=True
    )
    price_per_unit = Number("Price of one unit.", 0.1208, unit="in euros, without tax", erased=True)
    net_amount = Number(
        "Price times units.",
        25.91,
        required=True,
        unit="in euros, without tax; positive if the customer is charged",
    )
    units = Values(
        Number(erased=True), "The readings at the start and the end, of each meter in turn.", [10412.5, 10627]
    )
    params = Object(LineItemParamsSchema, "Other data of the line.", {"ref": "line-1"})


class TaxItemParamsSchema(Fields):
    """The members of a tax item besides its amounts."""

    vat_on = NormalIdentifier(
        "The `ref` of the line item that is taxed.", "line-1", personal=False, erased=True
    )


class TaxItemSchema(Fields):
    """Tax on a supply charge."""

    amount = Number("The tax.", 5.44, required=True, unit="in euros; positive if the customer is charged")
    tax_type = NormalIdentifier("The kind of tax.", "VAT", required=True, personal=False)
    rate = Number("The rate of the tax.", 0.21, unit="as a proportion from 0 to 1 if it is VAT: 0.21 is 21 %")
    unit_type = NormalIdentifier("The unit of the rate.", "PROPORTION", personal=False)
    value_taxed = Number("The amount that is taxed.", 25.91, unit=_EUROS, erased=True)
    params = Object(TaxItemParamsSchema, "Other data of the item.", {"vat_on": "line-1"})


class TransactionSchema(Fields):
    """A financial transaction (section 2.5)."""

    transaction_id = NormalIdentifier(
        "The supplier's identifier, unique within the account.",
        "T-100000038-1-1",
        required=True,
        identifying=True,
        erased=False,
    )
    transaction_date = Day("The day of the transaction.", "2026-02-28", required=True, personal=False)
    amount = Number(
        "The amount that was charged or paid. The type gives the direction.",
        49.28,
        required=True,
        unit="in euros, tax included; positive, or negative for a correction",
    )
    type = Choice(
        TransactionType,
        "The type of the transaction. PAYMENT and CREDIT add to the balance. CHARGE, SUPPLY_CHARGE "
        "and REPAYMENT subtract from it.",
        "PAYMENT",
        required=True,
    )
    reason = OpenChoice(
        Reason, "The reason of a CHARGE, CREDIT, PAYMENT or REPAYMENT.", "ACCOUNT_CHARGE_PAYMENT", erased=True
    )
    reference = Text("The bank's reference of the payment.", "NL-DD-2026-02", blank=True, personal=True)
    payment_type = OpenChoice(PaymentType, "How a PAYMENT or REPAYMENT was made.", "DD_REGULAR_COLLECTION")
    display_note = Text(
        "A note that the customer sees.", "Direct debit", blank=True, max_length=2_000, personal=True
    )
    note = Text("A note that only staff see.", "Collected twice", blank=True, max_length=2_000, personal=True)
    associated_invoice_number = NormalIdentifier(
        "The `number` of the statement that it belongs to.",
        "2026-100000038-1-01",
        identifying=True,
        erased=False,
    )
    supply_type = Choice(SupplyType, "What a SUPPLY_CHARGE charges for.", "ELECTRICITY")
    product_code = NormalIdentifier(
        "The product of a SUPPLY_CHARGE.", "NL_ELECTRICITY_SUPPLY", personal=False
    )
    line_items = Objects(
        LineItemSchema,
        "The lines of a SUPPLY_CHARGE.",
        [{"rate_band": "CONSUMPTION_STANDARD", "net_amount": 25.91}],
    )
    tax_items = Objects(TaxItemSchema, "The tax of a SUPPLY_CHARGE.", [{"amount": 5.44, "tax_type": "VAT"}])


class LedgerSchema(Fields):
    """An account's balance and its transactions. Credit is positive."""

    identifiers = Values(
        Ean(identifying=True),
        "EANs of the meter points that are charged to this ledger.",
        ["871694330222747339"],
    )
    last_settlement_balance = Number("The balance when the last settlement was closed.", -49.28, unit=_CREDIT)
    last_settlement_closing_date = Day(
        "Last day of the last settlement. The open period starts the day after.", "2026-02-28", personal=False
    )
    last_settlement_issue_date = Day(
        "The day on which the settlement was sent.", "2026-03-01", personal=False
    )
    ledger_code = NormalIdentifier(
        "The code of the ledger, unique within the account.", "ENERGY_LEDGER", required=True, personal=False
    )
    ledger_balance = Number(
        "The current balance: the last settlement's plus the open transactions.",
        -49.28,
        required=True,
        unit=_CREDIT,
    )
    transactions_in_open_settlement_period = Objects(
        TransactionSchema, "Transactions after last_settlement_closing_date.", []
    )
    historical_statement_transactions = Objects(
        TransactionSchema, "Transactions up to last_settlement_closing_date, already settled.", []
    )
