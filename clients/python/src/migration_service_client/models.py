"""The bodies of requests, as dictionaries, and the answers, as dataclasses.

docs/suppliers/fields.md explains the fields of an account, and the description those of
the answers. What the description does not require is None if it was not answered.

Written by `make docs` from the description of the interface; do not edit it by hand.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Any, Required, TypedDict


class AccountImport(TypedDict, total=False):
    external_account_number: Required["str"]
    import_supplier: Required["str"]
    unknown_occupier: "bool | str"
    billing_address1: "str"
    billing_address2: "str"
    billing_address3: "str"
    billing_address4: "str"
    billing_postcode: "str"
    customers: "Sequence[Customer]"
    supply_addresses: "Sequence[SupplyAddress]"
    ledgers: "Sequence[Ledger]"
    statements: "Sequence[Statement]"


class Agreement(TypedDict, total=False):
    supply_type: Required["str"]
    effective_from: Required["str"]
    agreed_at: "str"
    tariff_code: Required["str"]
    params: "AgreementParams"
    monthly_advance_charge_template: "MonthlyAdvanceChargeTemplate"


class AgreementParams(TypedDict, total=False):
    historical_contract_number: "str"
    historical_contract_pdf_path: "str"


class BillingConfigurationPeriod(TypedDict, total=False):
    residency_status: "str"
    energy_tax_exception: "str"
    start_date: Required["str"]
    end_date: "str"


class BrakeBody(TypedDict, total=False):
    stop_after_errors: Required["str"]
    stop_min_lines: "int"
    stop_window_lines: "int"
    stop_ignore_codes: "Sequence[str]"
    stop_count_warnings: "Sequence[str]"


class ConfigurationPeriod(TypedDict, total=False):
    allocation_method: "str"
    energy_delivery_status: "str"
    energy_flow_direction: "str"
    metering_method: "str"
    physical_status: "str"
    profile_category: "str"
    physical_capacity: "Decimal | int | float | str"
    cap_tar_code: "str"
    start_date: Required["str"]


class CostDetail(TypedDict, total=False):
    band: Required["str"]
    net_amount: Required["Decimal | int | float | str"]
    tax_amount: "Decimal | int | float | str"
    tax_rate: "Decimal | int | float | str"


class Customer(TypedDict, total=False):
    given_name: "str"
    family_name: "str"
    email: "str"
    mobile: "str"
    landline: "str"
    date_of_birth: "str"
    customer_preferences: "CustomerPreferences"
    user_details: "Sequence[UserDetail]"


class CustomerPreferences(TypedDict, total=False):
    opted_into_updates: "bool"
    opted_into_offers: "bool"
    opted_into_sms: "bool"


class EstimatedAnnualVolume(TypedDict, total=False):
    direction: Required["str"]
    energy_netted_peak: "Decimal | int | float | str"
    energy_netted_off_peak: "Decimal | int | float | str"
    start_at: Required["str"]
    end_at: "str | None"


class GridOperatorEffectivePeriod(TypedDict, total=False):
    grid_operator_code: Required["str"]
    start_date: Required["str"]


class HistoricalStatement(TypedDict, total=False):
    bill_period_from_date: Required["str"]
    bill_period_to_date: Required["str"]
    statement_id: Required["str"]
    issued_date: Required["str"]
    number: Required["str"]
    gross_amount: Required["Decimal | int | float | str"]
    statement_path: "str"


class Ledger(TypedDict, total=False):
    identifiers: "Sequence[str]"
    last_settlement_balance: "Decimal | int | float | str"
    last_settlement_closing_date: "str"
    last_settlement_issue_date: "str"
    ledger_code: Required["str"]
    ledger_balance: Required["Decimal | int | float | str"]
    transactions_in_open_settlement_period: "Sequence[Transaction]"
    historical_statement_transactions: "Sequence[Transaction]"


class LineItem(TypedDict, total=False):
    rate_band: Required["str"]
    start_date: "str"
    end_date: "str"
    number_of_units: "Decimal | int | float | str"
    price_per_unit: "Decimal | int | float | str"
    net_amount: Required["Decimal | int | float | str"]
    units: "Sequence[Decimal | int | float | str]"
    params: "LineItemParams"


class LineItemParams(TypedDict, total=False):
    ref: "str"


class Meter(TypedDict, total=False):
    meter_id: Required["str"]
    type: "str"
    smart_meter_technical_communication: "str"
    active_from: "str"
    registers: "Sequence[Register]"


class MeterPoint(TypedDict, total=False):
    ean: Required["str"]
    agreements: "Sequence[Agreement]"
    last_billed_to_date: "str"
    supply_start_date: "str"
    supply_type: Required["str"]
    smart_meter_administrative_status: "str"
    market_segment: "str"
    location_description: "str"
    meters: "Sequence[Meter]"
    energy_meter_point_configuration_periods: "Sequence[ConfigurationPeriod]"
    energy_meter_point_grid_operator_effective_periods: "Sequence[GridOperatorEffectivePeriod]"
    billing_configuration_periods: "Sequence[BillingConfigurationPeriod]"
    estimated_annual_volumes: "Sequence[EstimatedAnnualVolume]"


class MonthlyAdvanceChargeTemplate(TypedDict, total=False):
    total_monthly_advance_amount: Required["str"]
    forecast_annual_consumption: "str"
    forecast_consumption_units: "str"
    forecast_annual_generation: "str"
    forecast_generation_units: "str"
    cost_details: "Sequence[CostDetail]"


class Note(TypedDict, total=False):
    body: "str"
    document_paths: "Sequence[NoteDocument]"
    created_at: "str"
    is_pinned: "bool"
    unpin_at: "str"


class NoteDocument(TypedDict, total=False):
    document_path: Required["str"]


class Register(TypedDict, total=False):
    register_id: Required["str"]
    metering_direction: "str"
    multiplication_factor: "int"
    number_of_digits: "int"
    time_of_use: "str"


class Statement(TypedDict, total=False):
    bill_period_from_date: Required["str"]
    bill_period_to_date: Required["str"]
    statement_id: Required["str"]
    issued_date: Required["str"]
    number: Required["str"]
    gross_amount: Required["Decimal | int | float | str"]
    statement_path: "str"
    statement_pdf_context: "dict[str, Any]"


class SupplyAddress(TypedDict, total=False):
    supply_address1: "str"
    supply_address2: "str"
    supply_address3: "str"
    supply_address4: "str"
    supply_postcode: "str"
    customer_at_supply_address_from_date: "str"
    meter_points: "Sequence[MeterPoint]"


class TaxItem(TypedDict, total=False):
    amount: Required["Decimal | int | float | str"]
    tax_type: Required["str"]
    rate: "Decimal | int | float | str"
    unit_type: "str"
    value_taxed: "Decimal | int | float | str"
    params: "TaxItemParams"


class TaxItemParams(TypedDict, total=False):
    vat_on: "str"


class Transaction(TypedDict, total=False):
    transaction_id: Required["str"]
    transaction_date: Required["str"]
    amount: Required["Decimal | int | float | str"]
    type: Required["str"]
    reason: "str"
    reference: "str"
    payment_type: "str"
    display_note: "str"
    note: "str"
    associated_invoice_number: "str"
    supply_type: "str"
    product_code: "str"
    line_items: "Sequence[LineItem]"
    tax_items: "Sequence[TaxItem]"


class TransactionTotal(TypedDict, total=False):
    count: Required["int"]
    sum: Required["Decimal | int | float | str"]


class TransactionTotals(TypedDict, total=False):
    CHARGE: "TransactionTotal"
    CREDIT: "TransactionTotal"
    PAYMENT: "TransactionTotal"
    REPAYMENT: "TransactionTotal"
    SUPPLY_CHARGE: "TransactionTotal"


class UndoneWave(TypedDict, total=False):
    plan_id: Required["str"]
    number: Required["int"]


class UserDetail(TypedDict, total=False):
    namespace: Required["str"]
    value: Required["str"]


class WaveBody(TypedDict, total=False):
    name: "str"
    sample: "int"
    size: "int"
    accounts: "Sequence[str]"
    rest: "bool"
    continue_if_clean: "bool"
    window: "Window"
    lines_per_minute: "int"
    brake: "BrakeBody"


class Window(TypedDict, total=False):
    start: Required["str"]
    end: Required["str"]
    time_zone: Required["str"]
    first_day: "str"
    days: "Sequence[str]"


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountCreated:
    external_account_number: str
    service_account_number: str
    attempt_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountDifferenceAnswer:
    external_account_number: str
    service_account_number: "str | None"
    differences: "tuple[DifferenceAnswer, ...]"
    values: "tuple[ValueDifferenceAnswer, ...]"


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountFailed:
    external_account_number: str
    attempt_id: str
    code: str
    codes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountHistory:
    import_supplier: str
    external_account_number: str
    status: str
    is_skipped: bool
    staged: "StagedVersion | None"
    newer_version: "NewerVersion | None"
    created: "CreatedVersion | None"
    added: "AddedSince | None"


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountStatus:
    status: str
    service_account_number: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountWentLive:
    external_account_number: str
    service_account_number: str
    go_live_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AcknowledgedAnswer:
    acknowledged: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AcknowledgementAnswer:
    external_account_number: "str | None"
    batch_id: "str | None"
    line_number: "int | None"
    reason: str
    acknowledged_by: str
    acknowledged_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class AddedSince:
    notes: "tuple[dict[str, Any], ...]"
    transactions: "tuple[dict[str, Any], ...]"
    statements: "tuple[dict[str, Any], ...]"
    payment_instructions: "tuple[dict[str, Any], ...]"


@dataclass(frozen=True, slots=True, kw_only=True)
class AddedTransaction:
    transaction_id: str
    transaction_date: date
    amount: Decimal | str
    type: str
    reason: "str | None" = None
    reference: "str | None" = None
    payment_type: "str | None" = None
    display_note: "str | None" = None
    note: "str | None" = None
    associated_invoice_number: "str | None" = None
    supply_type: "str | None" = None
    product_code: "str | None" = None
    line_items: "tuple[LineItem, ...] | None" = None
    tax_items: "tuple[TaxItem, ...] | None" = None
    status: "str | None" = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiKeyAnswer:
    api_key: str
    api_key_name: "str | None"
    organisation: str
    scopes: "tuple[str, ...] | None"
    import_suppliers: "tuple[str, ...] | None"
    allowed_networks: "tuple[str, ...] | None"
    expires_at: "datetime | None"
    address: "str | None"
    version: str
    limits: "LimitsAnswer"


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiKeyExpires:
    prefix: str
    expires_at: datetime
    days: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptAnswer:
    attempt_id: str
    import_supplier: str
    external_account_number: str
    dry_run: bool
    state: str
    outcome: "str | None"
    service_account_number: "str | None"
    error: "ErrorBody | None"
    created_at: datetime
    finished_at: "datetime | None"


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditDaySealed:
    day: date
    head: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchAnswer:
    batch_id: str
    import_supplier: str
    operations_team_name: "str | None"
    name: "str | None"
    file_name: "str | None"
    file_sha256: "str | None"
    file_bytes: "int | None"
    kind: str
    options: dict[str, bool]
    mode: str
    profile: "str | None"
    extracted_at: "datetime | None"
    older_versions: "int | None"
    source: str
    state: str
    reason: "str | None"
    created_at: datetime
    started_at: "datetime | None"
    finished_at: "datetime | None"
    lines_removed_at: "datetime | None"
    lines: int
    counts: dict[str, int]
    undone: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchProgressAnswer(BatchAnswer):
    error_counts: dict[str, int]
    warning_counts: dict[str, int]
    staging_counts: dict[str, int]
    rate: "Decimal | None"
    time_left: "Decimal | None"
    time_left_low: "Decimal | None"
    time_left_high: "Decimal | None"
    runs_until: "datetime | None"
    condition: "str | None"
    next_try_at: "datetime | None"
    waits_for_vendors: "tuple[str, ...] | None"
    brake: "BrakeAnswer | None"
    control_totals_differing: "int | None"
    control_totals_as_given: "bool | None"


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryAnswer(BatchProgressAnswer):
    retried: int
    left: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchEnded:
    batch_id: str
    kind: str
    mode: str
    state: str
    counts: dict[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchProgressed:
    batch_id: str
    kind: str
    mode: str
    counts: dict[str, int]
    lines: "tuple[EventLine, ...]"


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchThresholdReached:
    batch_id: str
    lines: int
    errors: int
    codes: dict[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class BookTotalAnswer:
    measure: str
    given: "Decimal | None"
    file: "Decimal | None"
    difference: "Decimal | None"
    refused: Decimal
    waiting: Decimal
    acknowledged: Decimal
    repeated: Decimal
    staged: Decimal
    skipped: Decimal
    created: Decimal | str
    unaccounted: "Decimal | str | None"


@dataclass(frozen=True, slots=True, kw_only=True)
class BookTotalsAnswer:
    totals: "tuple[BookTotalAnswer, ...]"
    given: "bool | None"
    differing: "int | None"
    as_given: "bool | None"
    has_other_versions: bool
    unreadable_lines: int
    unreadable_amounts: int
    files: "tuple[SentBookAnswer, ...]"


@dataclass(frozen=True, slots=True, kw_only=True)
class CertificateAnswer:
    certificate_id: str
    import_supplier: str
    batch_id: "str | None"
    requested_by: str
    created_at: datetime
    finished_at: "datetime | None"
    accounts: int
    clean: "bool | None"
    public_key: "str | None"


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckAnswer:
    check: str
    result: str
    detail: str
    remedy: str
    accepted_by: "str | None"
    accepted_at: "datetime | None"
    accepted_because: "str | None"


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedAccountAnswer:
    external_account_number: str
    change: str
    before_line: "int | None"
    before_codes: tuple[str, ...]
    after_line: "int | None"
    after_codes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedAccountsAnswer:
    newly_broken: int
    mended: int
    still_broken: int
    added_broken: int
    removed_broken: int
    passed: int
    added: int
    removed: int
    undecided: int
    unnumbered_before: int
    unnumbered_after: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedCodeAnswer:
    severity: str
    code: str
    before: int
    after: int
    change: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonAnswer:
    before: str
    after: str
    codes: "tuple[ComparedCodeAnswer, ...]"
    accounts: "ComparedAccountsAnswer"


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlTotalAnswer:
    measure: str
    given: "Decimal | None"
    file: Decimal
    difference: "Decimal | None"


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlTotalsAnswer:
    batch_id: str
    control_totals: "dict[str, Any] | None"
    totals: "tuple[ControlTotalAnswer, ...]"
    differing: "int | None"
    as_given: "bool | None"
    unreadable_lines: int
    unreadable_amounts: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatedAccount:
    service_account_number: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatedVersion:
    service_account_number: str
    operations_team_name: str
    account_created_at: datetime
    erased_at: "datetime | None"
    owner: str
    live_at: "datetime | None"
    live_by: "str | None"


@dataclass(frozen=True, slots=True, kw_only=True)
class DifferenceAnswer:
    measure: str
    staged: Decimal
    created: Decimal | str


@dataclass(frozen=True, slots=True, kw_only=True)
class ErasureAnswer:
    external_account_number: str
    service_account_number: "str | None"
    payload: bool
    batch_lines: int
    customers: int
    kept_answers: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorBody:
    detail: str
    code: str
    errors: "tuple[ErrorObject, ...]"


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorObject:
    detail: str
    code: str
    attr: "str | None"


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    id: str
    type: str
    created_at: datetime
    import_supplier: "str | None"


@dataclass(frozen=True, slots=True, kw_only=True)
class EventConsumerAnswer:
    name: str
    cursor: str
    asked_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class EventLine:
    line_number: int
    status: str
    external_account_number: "str | None" = None
    service_account_number: "str | None" = None
    codes: "tuple[str, ...] | None" = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedImport:
    external_account_number: str
    attempt_id: str
    dry_run: bool
    outcome: str
    code: str
    finished_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedEvent:
    id: str
    type: str
    created_at: datetime
    import_supplier: "str | None"
    data: "dict[str, Any]"
    cursor: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedRewound:
    cursor: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FigureCountsAnswer:
    figure: str
    equal: int
    within_cent: int
    within_euro: int
    more: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FigureDifferenceAnswer:
    number: int
    external_account_number: str
    figure: str
    ledger_code: "str | None"
    old: "str | None"
    created: "str | None"
    bucket: str
    is_tolerated: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    detail: str
    code: str
    attr: "str | None"
    suggestions: "tuple[Suggestion, ...] | None" = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundBlockerAnswer:
    code: str
    may_be_overridden: bool
    accounts: int
    examples: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GoLiveAnswer:
    import_supplier: str
    batch_id: "str | None"
    plan_id: "str | None"
    wave_number: "int | None"
    live_at: datetime
    go_live_id: str
    state: str
    decided_by: "str | None"
    accounts: int
    emails: int
    receipt: "dict[str, Any] | None"
    created_at: datetime
    finished_at: "datetime | None"


@dataclass(frozen=True, slots=True, kw_only=True)
class GoLivePreviewAnswer:
    import_supplier: str
    batch_id: "str | None"
    plan_id: "str | None"
    wave_number: "int | None"
    live_at: datetime
    before: "datetime | None"
    accounts: int
    already_live: int
    emails: int
    not_ready: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportSupplierAnswer:
    import_supplier: str
    status: str
    profile: str
    time_zone: str
    customer_emails: bool
    emails_at: str
    emails_from: "datetime | None"
    emails_held: int
    counts: dict[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptBackAnswer:
    code: str
    accounts: int
    examples: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitsAnswer:
    body_bytes: int
    batch_bytes: int
    batch_lines: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LineAnswer:
    batch_id: str
    line_number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LineErrorObject:
    detail: str
    code: str
    attr: "str | None"
    value: "str | None"


@dataclass(frozen=True, slots=True, kw_only=True)
class LineResult:
    line_number: int
    external_account_number: "str | None"
    status: str
    service_account_number: "str | None"
    errors: "tuple[LineErrorObject, ...]"
    warnings: "tuple[LineErrorObject, ...]"
    staging_result: "str | None"


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedImport:
    external_account_number: str
    service_account_number: "str | None"
    account_created_at: "datetime | None"


@dataclass(frozen=True, slots=True, kw_only=True)
class NewSecretAnswer:
    secret: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NewerVersion:
    refused_at: datetime
    batch_id: "str | None"
    line_number: "int | None"
    errors: "tuple[ErrorObject, ...]"


@dataclass(frozen=True, slots=True, kw_only=True)
class NoteResult:
    created_at: datetime
    body: "str | None"
    status: str
    warnings: "tuple[ErrorObject, ...] | None" = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NotesReport:
    valid: bool
    errors: "tuple[ErrorObject, ...]"
    warnings: "tuple[ErrorObject, ...]"
    result: "tuple[NoteResult, ...]"


@dataclass(frozen=True, slots=True, kw_only=True)
class OldFiguresAnswer:
    file_name: "str | None"
    file_sha256: str
    file_bytes: int
    accounts: int
    tolerance: Decimal
    tolerance_days: int
    uploaded_at: datetime
    uploaded_by: str
    comparison_id: "str | None"
    compared_at: "datetime | None"
    compared: int
    not_created: int
    differing: int
    figures: "tuple[FigureCountsAnswer, ...]"


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenItemAnswer:
    external_account_number: "str | None"
    reason: str
    batch_id: "str | None"
    line_number: "int | None"
    errors: "tuple[ErrorObject, ...] | None"
    is_line: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PaymentInstructionReport:
    valid: bool
    errors: "tuple[ErrorObject, ...]"
    warnings: "tuple[ErrorObject, ...]"
    result: "PaymentInstructionResult"


@dataclass(frozen=True, slots=True, kw_only=True)
class PaymentInstructionResult:
    service_account_number: str
    reference: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ProblemAnswer:
    problem: str
    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadinessAnswer:
    import_supplier: str
    ready_for: str
    wave_number: "int | None"
    ready: bool
    checks: "tuple[CheckAnswer, ...]"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiptAnswer:
    import_supplier: str
    batch_id: "str | None"
    comparison_id: "str | None"
    compared_at: "datetime | None"
    clean: bool
    problems: "tuple[ProblemAnswer, ...]"
    open: "tuple[ProblemAnswer, ...]"
    exceptions: "tuple[ReceiptExceptionAnswer, ...]"
    sent: int
    created: int
    compared: int
    totals: "tuple[ReceiptTotalAnswer, ...]"
    files: "tuple[ReceiptFileAnswer, ...]"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiptExceptionAnswer:
    problem: str
    number: int
    external_account_number: "str | None"
    reason: str
    accepted_by: str
    created_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiptFileAnswer:
    batch_id: str
    file_name: "str | None"
    sha256: str
    lines: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiptTotalAnswer:
    measure: str
    staged: str
    created: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReconciliationAnswer:
    import_supplier: str
    sent: "SentAnswer"
    open: "tuple[OpenItemAnswer, ...]"
    book: "BookTotalsAnswer | None"
    differences: "tuple[AccountDifferenceAnswer, ...]"
    totals: "tuple[DifferenceAnswer, ...]"
    compared: int
    not_comparable: int
    not_comparable_lines: int
    lines_not_comparable: "tuple[LineAnswer, ...]"
    not_compared: tuple[str, ...]
    differing: int
    old_figures: "tuple[FigureCountsAnswer, ...]"
    compared_from: "datetime | None"
    compared_at: "datetime | None"
    created_since: int
    undone_since: int
    problems: "tuple[ProblemAnswer, ...]"
    created_clean: bool
    complete: bool
    clean: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ReconciliationDiffers:
    plan_id: str
    number: int
    batch_id: str
    differing: int
    open: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RedeliveredAnswer:
    events: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplacementPreviewAnswer:
    import_supplier: str
    accounts: int
    replaced: int
    created: int
    unchanged: int
    blockers: "tuple[KeptBackAnswer, ...]"


@dataclass(frozen=True, slots=True, kw_only=True)
class SentAnswer:
    sent: int
    refused: int
    waiting: int
    staged: int
    created: int
    skipped: int
    acknowledged: int
    created_acknowledged: int
    open: int
    staged_older_version: int
    created_older_version: int
    added_lines_refused: int
    added_lines_waiting: int
    lines_removed: int
    removed_refused: int
    removed_waiting: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SentBookAnswer:
    batch_id: str
    file_name: "str | None"
    file_sha256: "str | None"
    file_bytes: "int | None"
    control_totals_differing: "int | None"
    control_totals_as_given: "bool | None"
    is_superseded: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionAnswer:
    session_id: str
    api_key: str
    api_key_name: "str | None"
    address: "str | None"
    created_at: datetime
    expires_at: datetime
    ended_at: "datetime | None"


@dataclass(frozen=True, slots=True, kw_only=True)
class SkippedAnswer:
    skipped: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedVersion:
    staged_at: datetime
    extracted_at: "datetime | None"
    profile: str
    warnings: "tuple[ErrorObject, ...]"
    payload: "AccountImport | None"


@dataclass(frozen=True, slots=True, kw_only=True)
class StagingReport:
    valid: bool
    errors: "tuple[Finding, ...]"
    warnings: "tuple[Finding, ...]"
    account: "AccountImport"
    result: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StatementsReport:
    valid: bool
    errors: "tuple[ErrorObject, ...]"
    warnings: "tuple[ErrorObject, ...]"
    result: "StatementsRequest"


@dataclass(frozen=True, slots=True, kw_only=True)
class StatementsRequest:
    import_supplier: str
    external_account_number: str
    dry_run: "bool | None" = None
    statements: "tuple[HistoricalStatement, ...]"


@dataclass(frozen=True, slots=True, kw_only=True)
class StratumAnswer:
    stratum: str
    pending: int
    drawn: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Suggestion:
    op: str
    path: str
    value: "Any | None" = None
    confidence: str
    kind: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionResult:
    status: str
    transaction_data: "AddedTransaction"


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionResults:
    results: "tuple[TransactionResult, ...]"


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionsReport:
    valid: bool
    errors: "tuple[ErrorObject, ...]"
    warnings: "tuple[ErrorObject, ...]"
    result: "TransactionResults"


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoAnswer:
    undo_id: str
    import_supplier: str
    batch_id: "str | None"
    plan_id: "str | None"
    wave_number: "int | None"
    state: str
    reason: str
    overrides: tuple[str, ...]
    started_by: "str | None"
    created_at: datetime
    finished_at: "datetime | None"
    accounts: int


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoProgressAnswer(UndoAnswer):
    counts: dict[str, int]
    kept_counts: dict[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoEnded:
    undo_id: str
    batch_id: "str | None"
    state: str
    counts: dict[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoOutcomeAnswer:
    external_account_number: "str | None"
    service_account_number: str
    outcome: str
    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoPreviewAnswer:
    import_supplier: str
    batch_id: "str | None"
    plan_id: "str | None"
    wave_number: "int | None"
    accounts: int
    revertible: int
    revertible_with_overrides: int
    emails: int
    gone: int
    blockers: "tuple[FoundBlockerAnswer, ...]"


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoStarted:
    undo_id: str
    batch_id: "str | None"
    accounts: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidationReport:
    valid: bool
    errors: "tuple[Finding, ...]"
    warnings: "tuple[Finding, ...]"
    account: "AccountImport"


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueDifferenceAnswer:
    path: str
    staged: "Any"
    created: "Any"


@dataclass(frozen=True, slots=True, kw_only=True)
class WaveAnswer:
    number: int
    name: "str | None"
    state: str
    reason: "str | None"
    waits_for: "str | None"
    continue_if_clean: bool
    batch_id: str
    lines: int
    counts: dict[str, int]
    window: "WindowAnswer | None"
    opens_at: "datetime | None"
    closes_at: "datetime | None"
    lines_per_minute: "int | None"
    operations_team_name: str
    brake: "WaveBrakeAnswer | None"
    strata: "tuple[StratumAnswer, ...] | None"
    began_at: "datetime | None"
    began_by: "str | None"
    ended_at: "datetime | None"
    seconds_50: "Decimal | None"
    seconds_90: "Decimal | None"
    ends_at_50: "datetime | None"
    ends_at_90: "datetime | None"
    fits_window: "bool | None"
    reconciled_at: "datetime | None"
    differing: "int | None"
    open: "int | None"
    reverted: int
    existing: int
    decided_by: "str | None"
    decided_at: "datetime | None"
    decision_reason: "str | None"


@dataclass(frozen=True, slots=True, kw_only=True)
class WaveApprovalRequired:
    plan_id: str
    number: int
    batch_id: str
    found: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WaveBrakeAnswer:
    stop_after_errors: str
    stop_min_lines: "int | None"
    stop_window_lines: "int | None"
    stop_ignore_codes: tuple[str, ...]
    stop_count_warnings: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class BrakeAnswer(WaveBrakeAnswer):
    lines: int
    errors: int
    codes: dict[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class WavePlanAnswer:
    plan_id: str
    import_supplier: str
    operations_team_name: str
    name: "str | None"
    seed: int
    continue_if_clean: bool
    created_at: datetime
    finished_at: "datetime | None"
    unplanned: int
    older_versions: int
    undo_id: "str | None"
    waves: "tuple[WaveAnswer, ...]"


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookAnswer:
    webhook_id: str
    url: str
    description: str
    event_types: "tuple[str, ...] | None"
    import_suppliers: "tuple[str, ...] | None"
    email: "str | None"
    created_at: datetime
    enabled: bool
    disabled_at: "datetime | None"
    disabled_reason: "str | None"
    failing_since: "datetime | None"


@dataclass(frozen=True, slots=True, kw_only=True)
class NewWebhookAnswer(WebhookAnswer):
    secret: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookAttemptAnswer:
    number: int
    at: datetime
    milliseconds: int
    status: "int | None"
    error: "str | None"
    answer: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookDeliveryAnswer:
    delivery_number: int
    event_id: str
    event_type: str
    state: str
    replay: bool
    attempts: int
    created_at: datetime
    next_attempt_at: "datetime | None"
    settled_at: "datetime | None"
    attempt_list: "tuple[WebhookAttemptAnswer, ...]"


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookDisabled:
    webhook_id: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowAnswer:
    start: str
    end: str
    time_zone: str
    first_day: str
    days: tuple[str, ...]


#: The class of the data of each type of event.
EVENTS: dict[str, type] = {
    "account.created": AccountCreated,
    "account.failed": AccountFailed,
    "account.went_live": AccountWentLive,
    "batch.progressed": BatchProgressed,
    "batch.ended": BatchEnded,
    "batch.error_threshold_reached": BatchThresholdReached,
    "wave.approval_required": WaveApprovalRequired,
    "reconciliation.differs": ReconciliationDiffers,
    "undo.started": UndoStarted,
    "undo.ended": UndoEnded,
    "api_key.expires": ApiKeyExpires,
    "audit.day_sealed": AuditDaySealed,
    "webhook.disabled": WebhookDisabled,
    "feed.rewound": FeedRewound,
}
