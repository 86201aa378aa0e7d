"""The account payload in pydantic: every field, the closed lists, and the rules that matter most."""

import re
from datetime import date, datetime
from decimal import Decimal
from enum import StrEnum
from typing import Annotated, Any

import phonenumbers
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    EmailStr,
    Field,
    StringConstraints,
    field_validator,
    model_validator,
)


def _phone_number(text: str) -> str:
    if text:
        try:
            number = phonenumbers.parse(text, "NL")
        except phonenumbers.NumberParseException:
            raise ValueError("invalid_phone_number") from None
        if not phonenumbers.is_valid_number(number):
            raise ValueError("invalid_phone_number")
    return text


_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")


def _document_path(text: str) -> str:
    climbs = any(part in ("", ".", "..") for part in text.split("/"))
    if climbs or "\\" in text or not text.isprintable() or _SCHEME.match(text):
        raise ValueError("invalid_document_path")
    return text


Text = Annotated[str, StringConstraints(max_length=255)]
LongText = Annotated[str, StringConstraints(max_length=2000)]
Identifier = Annotated[str, StringConstraints(min_length=1, max_length=128)]
Code = Annotated[str, StringConstraints(pattern=r"^[A-Z][A-Z0-9_]*$", max_length=64)]
Ean = Annotated[str, StringConstraints(pattern=r"^\d{1,18}$")]
Number = Annotated[Decimal, Field(max_digits=22, decimal_places=10)]
PhoneNumber = Annotated[str, StringConstraints(max_length=40), AfterValidator(_phone_number)]
DocumentPath = Annotated[
    str, StringConstraints(min_length=1, max_length=1024), AfterValidator(_document_path)
]


class SupplyType(StrEnum):
    ELECTRICITY = "ELECTRICITY"
    GAS = "GAS"


class Units(StrEnum):
    KWH = "KWH_CONSUMPION"
    CUBIC_METRES = "CUBIC_METRES_CONSUMPTION"


class Band(StrEnum):
    DYNAMIC = "ADVANCE_SUPPLIER_DYNAMIC_COST"
    PURCHASING = "ADVANCE_SUPPLIER_PURCHASING_COST"
    FIXED = "ADVANCE_SUPPLIER_FIXED_COST"
    GRID = "ADVANCE_GRID_FEE"
    STEP_1 = "ADVANCE_ENERGY_TAX_STEP_1"
    STEP_2 = "ADVANCE_ENERGY_TAX_STEP_2"
    STEP_3 = "ADVANCE_ENERGY_TAX_STEP_3"
    STEP_4 = "ADVANCE_ENERGY_TAX_STEP_4"
    STEP_5 = "ADVANCE_ENERGY_TAX_STEP_5"
    REDUCTION = "ADVANCE_ENERGY_TAX_REDUCTION"
    STANDARD = "CONSUMPTION_STANDARD"


class TimeOfUse(StrEnum):
    OFF_PEAK = "OFF_PEAK"
    PEAK = "PEAK"


class ResidencyStatus(StrEnum):
    RESIDENT = "RESIDENT"
    NON_RESIDENT = "NON_RESIDENT"


class EnergyTaxException(StrEnum):
    BUSINESS = "BUSINESS"
    NO_EXCEPTION = "NO_EXCEPTION"


class Direction(StrEnum):
    CONSUMPTION = "CONSUMPTION"
    PRODUCTION = "PRODUCTION"


class TransactionType(StrEnum):
    CHARGE = "CHARGE"
    CREDIT = "CREDIT"
    PAYMENT = "PAYMENT"
    REPAYMENT = "REPAYMENT"
    SUPPLY_CHARGE = "SUPPLY_CHARGE"


class Reason(StrEnum):
    IMPORTED_CHARGE = "IMPORTED_CHARGE"
    IMPORTED_CREDIT = "IMPORTED_CREDIT"
    ACCOUNT_CHARGE_PAYMENT = "ACCOUNT_CHARGE_PAYMENT"
    FULL_CREDIT_REFUND = "FULL_CREDIT_REFUND"
    GENERAL_CREDIT = "GENERAL_CREDIT"


class PaymentType(StrEnum):
    DD_REGULAR_COLLECTION = "DD_REGULAR_COLLECTION"
    DIRECT_CREDIT = "DIRECT_CREDIT"
    DEBIT_CARD = "DEBIT_CARD"


class Model(BaseModel):
    model_config = ConfigDict(extra="ignore")


class Preferences(Model):
    opted_into_updates: bool | None = None
    opted_into_offers: bool | None = None
    opted_into_sms: bool | None = None


class UserDetail(Model):
    namespace: Identifier
    value: LongText


class Customer(Model):
    given_name: Text | None = None
    family_name: Annotated[str, StringConstraints(min_length=1, max_length=255)]
    email: EmailStr | None = None
    mobile: PhoneNumber | None = None
    landline: PhoneNumber | None = None
    date_of_birth: date | None = None
    customer_preferences: Preferences | None = None
    user_details: list[UserDetail] | None = None

    @field_validator("date_of_birth")
    @classmethod
    def _born(cls, born: date | None) -> date | None:
        if born is not None and born > date.today():
            raise ValueError("date_of_birth_in_future")
        return born


class CostDetail(Model):
    band: Band
    net_amount: Number
    tax_amount: Number | None = None
    tax_rate: Number | None = None


class Template(Model):
    total_monthly_advance_amount: Number
    forecast_annual_consumption: Number | None = None
    forecast_consumption_units: Units | None = None
    forecast_annual_generation: Number | None = None
    forecast_generation_units: Units | None = None
    cost_details: list[CostDetail] | None = None


class AgreementParams(Model):
    historical_contract_number: Identifier | None = None
    historical_contract_pdf_path: DocumentPath | None = None


class Agreement(Model):
    supply_type: SupplyType
    effective_from: date
    agreed_at: date | None = None
    tariff_code: Identifier
    params: AgreementParams | None = None
    monthly_advance_charge_template: Template | None = None


class Register(Model):
    register_id: Identifier
    metering_direction: Code | None = None
    multiplication_factor: int | None = None
    number_of_digits: int | None = None
    time_of_use: TimeOfUse | None = None


class Meter(Model):
    meter_id: Identifier
    type: Code | None = None
    smart_meter_technical_communication: Code | None = None
    active_from: date | None = None
    registers: list[Register] | None = None

    @model_validator(mode="after")
    def _registers(self) -> "Meter":
        ids = [register.register_id for register in self.registers or ()]
        if len(set(ids)) != len(ids):
            raise ValueError("meter_with_duplicate_register_ids")
        return self


class ConfigurationPeriod(Model):
    allocation_method: Code | None = None
    energy_delivery_status: Code | None = None
    energy_flow_direction: Code | None = None
    metering_method: Code | None = None
    physical_status: Code | None = None
    profile_category: Identifier | None = None
    physical_capacity: Number | None = None
    cap_tar_code: Identifier | None = None
    start_date: date


class GridOperatorPeriod(Model):
    grid_operator_code: Identifier
    start_date: date


class BillingPeriod(Model):
    residency_status: ResidencyStatus | None = None
    energy_tax_exception: EnergyTaxException | None = None
    start_date: date
    end_date: date | None = None


class EstimatedVolume(Model):
    direction: Direction
    energy_netted_peak: Number | None = None
    energy_netted_off_peak: Number | None = None
    start_at: datetime
    end_at: datetime | None = None


class MeterPoint(Model):
    ean: Ean
    agreements: list[Agreement] | None = None
    last_billed_to_date: date | None = None
    supply_start_date: date | None = None
    supply_type: SupplyType
    smart_meter_administrative_status: Code | None = None
    market_segment: Code | None = None
    location_description: Annotated[str, StringConstraints(max_length=1000)] | None = None
    meters: list[Meter] | None = None
    energy_meter_point_configuration_periods: list[ConfigurationPeriod] | None = None
    energy_meter_point_grid_operator_effective_periods: list[GridOperatorPeriod] | None = None
    billing_configuration_periods: list[BillingPeriod] | None = None
    estimated_annual_volumes: list[EstimatedVolume] | None = None

    @model_validator(mode="after")
    def _rules(self) -> "MeterPoint":
        starts = set()
        for agreement in self.agreements or ():
            if agreement.supply_type is not self.supply_type:
                raise ValueError("supply_type_mismatch")
            if agreement.effective_from in starts:
                raise ValueError("overlapping_agreements")
            starts.add(agreement.effective_from)
        for periods in (
            self.energy_meter_point_configuration_periods,
            self.energy_meter_point_grid_operator_effective_periods,
            self.billing_configuration_periods,
        ):
            days = [period.start_date for period in periods or ()]
            if len(set(days)) != len(days):
                raise ValueError("duplicate_period_start")
        for period in self.billing_configuration_periods or ():
            if period.end_date and period.end_date <= period.start_date:
                raise ValueError("start_date_later_than_end_date")
        for volume in self.estimated_annual_volumes or ():
            if volume.end_at and volume.end_at <= volume.start_at:
                raise ValueError("start_date_later_than_end_date")
        return self


class SupplyAddress(Model):
    supply_address1: Text | None = None
    supply_address2: Text | None = None
    supply_address3: Text | None = None
    supply_address4: Text | None = None
    supply_postcode: Text | None = None
    customer_at_supply_address_from_date: date | None = None
    meter_points: list[MeterPoint] | None = None


class LineItemParams(Model):
    ref: Identifier | None = None


class LineItem(Model):
    rate_band: Band
    start_date: date | None = None
    end_date: date | None = None
    number_of_units: Number | None = None
    price_per_unit: Number | None = None
    net_amount: Number
    units: list[Number] | None = None
    params: LineItemParams | None = None

    @model_validator(mode="after")
    def _period(self) -> "LineItem":
        if self.start_date and self.end_date and self.end_date < self.start_date:
            raise ValueError("start_date_later_than_end_date")
        return self


class TaxItemParams(Model):
    vat_on: Identifier | None = None


class TaxItem(Model):
    amount: Number
    tax_type: Identifier
    rate: Number | None = None
    unit_type: Identifier | None = None
    value_taxed: Number | None = None
    params: TaxItemParams | None = None


class Transaction(Model):
    transaction_id: Identifier
    transaction_date: date
    amount: Number
    type: TransactionType
    reason: Reason | None = None
    reference: Text | None = None
    payment_type: PaymentType | None = None
    display_note: LongText | None = None
    note: LongText | None = None
    associated_invoice_number: Identifier | None = None
    supply_type: SupplyType | None = None
    product_code: Identifier | None = None
    line_items: list[LineItem] | None = None
    tax_items: list[TaxItem] | None = None

    @model_validator(mode="after")
    def _vat_references(self) -> "Transaction":
        refs = [item.params.ref for item in self.line_items or () if item.params and item.params.ref]
        if len(set(refs)) != len(refs):
            raise ValueError("duplicate_line_item_refs")
        for tax in self.tax_items or ():
            if tax.params and tax.params.vat_on and tax.params.vat_on not in refs:
                raise ValueError("unknown_vat_reference")
        return self


_SIGN = {
    TransactionType.PAYMENT: 1,
    TransactionType.CREDIT: 1,
    TransactionType.CHARGE: -1,
    TransactionType.SUPPLY_CHARGE: -1,
    TransactionType.REPAYMENT: -1,
}


class Ledger(Model):
    identifiers: list[Ean] | None = None
    last_settlement_balance: Number | None = None
    last_settlement_closing_date: date | None = None
    last_settlement_issue_date: date | None = None
    ledger_code: Identifier
    ledger_balance: Number
    transactions_in_open_settlement_period: list[Transaction] | None = None
    historical_statement_transactions: list[Transaction] | None = None

    def warnings(self) -> list[str]:
        found = []
        settled = self.last_settlement_balance
        if settled is not None:
            moved = sum(
                (
                    _SIGN[item.type] * item.amount
                    for item in self.transactions_in_open_settlement_period or ()
                ),
                Decimal(0),
            )
            if abs(settled + moved - self.ledger_balance) > Decimal("0.005"):
                found.append("balance_mismatch_on_ledger_balance")
        return found


class Statement(Model):
    bill_period_from_date: date
    bill_period_to_date: date
    statement_id: Identifier
    issued_date: date
    number: Identifier
    gross_amount: Number
    statement_path: DocumentPath | None = None
    statement_pdf_context: dict[str, Any] | None = None

    @model_validator(mode="after")
    def _period(self) -> "Statement":
        if self.bill_period_to_date < self.bill_period_from_date:
            raise ValueError("start_date_later_than_end_date")
        return self


class Account(Model):
    external_account_number: Identifier
    import_supplier: Identifier
    unknown_occupier: bool = False
    billing_address1: Text | None = None
    billing_address2: Text | None = None
    billing_address3: Text | None = None
    billing_address4: Text | None = None
    billing_postcode: Text | None = None
    customers: list[Customer] = []
    supply_addresses: list[SupplyAddress] = []
    ledgers: list[Ledger] = []
    statements: list[Statement] = []

    @model_validator(mode="after")
    def _rules(self) -> "Account":
        if not self.customers and not self.unknown_occupier:
            raise ValueError("customer_required")
        points = [point for address in self.supply_addresses for point in address.meter_points or ()]
        keys = {(point.ean, point.supply_type) for point in points}
        if len(keys) != len(points):
            raise ValueError("duplicate_meter_points_provided")
        eans = {point.ean for point in points}
        identifiers = [ean for ledger in self.ledgers for ean in ledger.identifiers or ()]
        if not eans.issuperset(identifiers):
            raise ValueError("unknown_ledger_identifiers")
        if len(set(identifiers)) != len(identifiers):
            raise ValueError("duplicate_identifiers_entries_found")
        codes = [ledger.ledger_code for ledger in self.ledgers]
        if len(set(codes)) != len(codes):
            raise ValueError("duplicate_ledger_entries_found")
        transactions = [
            item.transaction_id
            for ledger in self.ledgers
            for items in (
                ledger.transactions_in_open_settlement_period,
                ledger.historical_statement_transactions,
            )
            for item in items or ()
        ]
        if len(set(transactions)) != len(transactions):
            raise ValueError("duplicate_transaction_ids")
        statements = [statement.statement_id for statement in self.statements]
        if len(set(statements)) != len(statements):
            raise ValueError("duplicate_statement_ids")
        return self

    def warnings(self) -> list[str]:
        return [code for ledger in self.ledgers for code in ledger.warnings()]
