"""The tables: `operation` has what the service is run with, `imports` and `batch` the work, others accounts.

Every model is imported here, so that `Base.metadata` is complete for whoever imports the package.
"""

from migration_service.models.account import Account, Customer, UserDetail
from migration_service.models.batch import (
    Batch,
    BatchChunk,
    BatchLine,
    BatchMode,
    BatchSource,
    BatchState,
    ChunkState,
    LineStatus,
)
from migration_service.models.customer_email import CustomerEmail, EmailState
from migration_service.models.imports import AccountImportProcess, Attempt, ImportState, Outcome
from migration_service.models.ledger import Ledger, LineItem, TaxItem, Transaction, TransactionPeriod
from migration_service.models.note import Note
from migration_service.models.operation import (
    ApiKey,
    ImportSupplier,
    OperationsTeam,
    Organisation,
    ServiceLimit,
    SupplierStatus,
)
from migration_service.models.payment import PaymentInstruction, PaymentVendor
from migration_service.models.statement import Statement, StatementOrigin
from migration_service.models.supply import (
    Agreement,
    BillingConfigurationPeriod,
    ConfigurationPeriod,
    CostDetail,
    EstimatedAnnualVolume,
    GridOperatorEffectivePeriod,
    Meter,
    MeterPoint,
    MonthlyAdvanceChargeTemplate,
    Register,
    SupplyAddress,
)

__all__ = [
    "Account",
    "AccountImportProcess",
    "Agreement",
    "ApiKey",
    "Attempt",
    "Batch",
    "BatchChunk",
    "BatchLine",
    "BatchMode",
    "BatchSource",
    "BatchState",
    "BillingConfigurationPeriod",
    "ChunkState",
    "ConfigurationPeriod",
    "CostDetail",
    "Customer",
    "CustomerEmail",
    "EmailState",
    "EstimatedAnnualVolume",
    "GridOperatorEffectivePeriod",
    "ImportState",
    "ImportSupplier",
    "Ledger",
    "LineItem",
    "LineStatus",
    "Meter",
    "MeterPoint",
    "MonthlyAdvanceChargeTemplate",
    "Note",
    "OperationsTeam",
    "Organisation",
    "Outcome",
    "PaymentInstruction",
    "PaymentVendor",
    "Register",
    "ServiceLimit",
    "Statement",
    "StatementOrigin",
    "SupplierStatus",
    "SupplyAddress",
    "TaxItem",
    "Transaction",
    "TransactionPeriod",
    "UserDetail",
]
