"""The tables. `operation` is set up by operators, `imports` and `batch` are the work, others the accounts.

Every model is imported here, so that `Base.metadata` is complete once the package is imported. The models
have the columns and the keys. The checks, the indexes and how rows are stored, which only PostgreSQL needs to
know, are in `alembic/versions/0001_schema.sql`.
"""

from migration_service.models.access import (
    Operator,
    OperatorOrganisation,
    OperatorSession,
    RefreshToken,
    TokenSession,
)
from migration_service.models.account import Account, Customer, UserDetail
from migration_service.models.added_data import Note, PaymentInstruction, PaymentVendor, Statement
from migration_service.models.audit import AuditDay, AuditEntry
from migration_service.models.batch import Batch, BatchChunk, BatchLine
from migration_service.models.comparison import (
    AcceptedWarning,
    Acknowledgement,
    Certificate,
    CertificateLeaf,
    ComparedAccount,
    ComparedLine,
    ComparedPiece,
    Comparison,
    FigureDifference,
    OldFigure,
    OldFigures,
    ReceiptException,
)
from migration_service.models.customer_email import AlertEmail, CustomerEmail
from migration_service.models.event import Event, EventConsumer, EventHistory
from migration_service.models.idempotency import IdempotencyKey
from migration_service.models.imports import AccountImportProcess, Attempt, SkipMark
from migration_service.models.ledger import Ledger, LineItem, TaxItem, Transaction
from migration_service.models.operation import (
    ApiKey,
    Backup,
    ImportSupplier,
    OperationsTeam,
    Organisation,
    ServiceLimit,
)
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
from migration_service.models.undo import GoLive, RetiredAccountNumber, Undo, UndoLine
from migration_service.models.wave import Wave, WavePlan
from migration_service.models.webhook import WebhookAttempt, WebhookDelivery, WebhookEndpoint, WebhookSecret
