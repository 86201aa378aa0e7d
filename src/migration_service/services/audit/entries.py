"""The entries of the audit, each written in the transaction of the recorded act.

Frequent acts (staging, processing, adding data, lines of a batch, tokens) have no entries. Instead, the rows
that they write contain the key, the request and the address. `trail` reads both together.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, TypeAlias

from sqlalchemy.orm import Session

from migration_service import models
from migration_service.origin import current_origin
from migration_service.states import AuditOutcome


class AuditAction(StrEnum):
    """The kinds of acts that have an audit entry."""

    ORGANISATION_CREATED = "organisation.created"
    SUPPLIER_CREATED = "import_supplier.created"
    SUPPLIER_RENAMED = "import_supplier.renamed"
    SUPPLIER_REMOVED = "import_supplier.removed"
    SUPPLIER_STATUS_SET = "import_supplier.status_set"
    SUPPLIER_TIME_ZONE_SET = "import_supplier.time_zone_set"
    SUPPLIER_EMAILS_SET = "import_supplier.customer_emails_set"
    TEAM_CREATED = "operations_team.created"
    TEAM_RENAMED = "operations_team.renamed"
    TEAM_REMOVED = "operations_team.removed"
    VENDOR_CREATED = "payment_vendor.created"
    VENDOR_RATE_SET = "payment_vendor.rate_set"
    LIMIT_SET = "concurrency_limit.set"
    BACKUP_TAKEN = "backup.taken"
    API_KEY_ISSUED = "api_key.issued"
    API_KEY_ROLLED = "api_key.rolled"
    API_KEY_REVOKED = "api_key.revoked"
    SESSION_ENDED = "session.ended"
    ACCOUNT_SKIPPED = "account.skipped"
    ACCOUNT_UNSKIPPED = "account.unskipped"
    #: The personal data of an account was erased. The details contain the reason.
    ACCOUNT_ERASED = "account.erased"
    #: It was accepted that refused accounts or lines are not imported.
    REFUSALS_ACKNOWLEDGED = "import_supplier.refusals_acknowledged"
    #: A person accepted a warning before a wave or go-live.
    WARNING_ACCEPTED = "import_supplier.warning_accepted"
    #: An operator read the personal data of an account.
    ACCOUNT_READ = "account.read"
    #: A person started a batch, in the console or with a command.
    BATCH_ORDERED = "batch.ordered"
    #: A batch was started that replaces accounts. The details contain the reason, if there is one.
    REPLACEMENT_ORDERED = "replacement.ordered"
    BATCH_PAUSED = "batch.paused"
    BATCH_RESUMED = "batch.resumed"
    BATCH_CANCELLED = "batch.cancelled"
    BATCH_RETRIED = "batch.retried"
    #: A batch whose key was revoked now runs for whoever resumed or retried it.
    BATCH_TAKEN_OVER = "batch.taken_over"
    #: The error threshold of a batch was changed.
    BATCH_THRESHOLD_SET = "batch.brake_set"
    #: The control totals of a batch were set.
    BATCH_CONTROL_TOTALS_SET = "batch.control_totals_set"
    #: An operator read the lines of a batch, or the open lines of an import supplier.
    BATCH_RESULTS_READ = "batch.results_read"
    #: An undo of accounts was started. The details contain the reason and the overridden blockers.
    UNDO_STARTED = "undo.started"
    UNDO_CANCELLED = "undo.cancelled"
    CERTIFICATE_STARTED = "certificate.started"
    #: The accounts of a supplier go live. After that they cannot be undone.
    SUPPLIER_LIVE_SET = "import_supplier.live_set"
    #: Accounts of a batch, or named ones, go live before their supplier.
    ACCOUNTS_LIVE_SET = "go_live.set"
    GO_LIVE_CANCELLED = "go_live.cancelled"
    #: A problem of a comparison was accepted, with a reason.
    RECEIPT_EXCEPTION_ACCEPTED = "receipt.exception_accepted"
    WAVE_PLAN_CREATED = "wave_plan.created"
    #: The changes in `services.waves.states`, in the same order.
    WAVE_QUEUED = "wave.queued"
    #: Its window, rate, error threshold, hold or team was changed before it started.
    WAVE_CHANGED = "wave.changed"
    WAVE_STARTED = "wave.began"
    WAVE_PAUSED = "wave.paused"
    WAVE_RESUMED = "wave.continued"
    WAVE_RECONCILED = "wave.reconciled"
    WAVE_REOPENED = "wave.reopened"
    WAVE_FOUND_CLEAN = "wave.found_clean"
    WAVE_FOUND_DIFFERENT = "wave.found_different"
    WAVE_UNDONE = "wave.undone"
    WAVE_APPROVED = "wave.approved"
    WAVE_STOPPED = "wave.stopped"
    #: A person resumed a wave outside its window. It continues in the next one.
    WAVE_RELEASED = "wave.released"
    WEBHOOK_CREATED = "webhook.created"
    WEBHOOK_CHANGED = "webhook.changed"
    WEBHOOK_REMOVED = "webhook.removed"
    WEBHOOK_SECRET_ROTATED = "webhook.secret_rotated"  # noqa: S105
    WEBHOOK_TESTED = "webhook.tested"
    #: Events were sent again. The details contain which.
    WEBHOOK_REDELIVERED = "webhook.redelivered"
    #: The service switched it off. The details contain why.
    WEBHOOK_SWITCHED_OFF = "webhook.switched_off"
    #: A named consumer was given up. The service no longer keeps the events that it has not read.
    EVENT_CONSUMER_FORGOTTEN = "event_consumer.forgotten"
    OPERATOR_CREATED = "operator.created"
    OPERATOR_ROLE_SET = "operator.role_set"
    OPERATOR_PASSWORD_SET = "operator.password_set"  # noqa: S105
    OPERATOR_DISABLED = "operator.disabled"
    OPERATOR_LOGGED_IN = "operator.logged_in"
    OPERATOR_LOGGED_OUT = "operator.logged_out"
    AUDIT_EXPORTED = "audit.exported"
    #: Refusals, written by `refusals`.
    LOGIN_REFUSED = "login.refused"
    TOKEN_REFUSED = "token.refused"  # noqa: S105
    PERMISSION_REFUSED = "permission.refused"


def record(
    session: Session,
    action: AuditAction,
    subject_kind: str,
    subject: object,
    *,
    organisation_id: int | None = None,
    details: Mapping[str, Any] | None = None,
) -> None:
    """Add an entry for an act to its transaction.

    `subject` is the name, prefix or id of the object that was changed; for an account, the id of its process.
    Neither it nor `details` may contain personal data. `organisation_id` is the organisation concerned, by
    default the actor's.
    """
    origin = current_origin()
    organisation_id = organisation_id or origin.organisation_id
    session.add(
        models.AuditEntry(
            actor_kind=origin.kind,
            actor=origin.actor,
            organisation_id=organisation_id,
            address=origin.address,
            request_id=origin.request_id,
            action=action,
            subject_kind=subject_kind,
            subject=str(subject),
            outcome=AuditOutcome.DONE,
            details=dict(details) if details else None,
        )
    )


_Row: TypeAlias = (
    models.ApiKey
    | models.ImportSupplier
    | models.OperationsTeam
    | models.PaymentVendor
    | models.WebhookEndpoint
)
#: What entries call each kind of row, and the column with what identifies it.
_SUBJECTS: dict[type[_Row], tuple[str, str]] = {
    models.ApiKey: ("api_key", "prefix"),
    models.ImportSupplier: ("import_supplier", "code"),
    models.OperationsTeam: ("operations_team", "name"),
    models.PaymentVendor: ("payment_vendor", "name"),
    models.WebhookEndpoint: ("webhook", "id"),
}


def record_about(
    session: Session,
    action: AuditAction,
    row: _Row,
    details: Mapping[str, Any] | None = None,
) -> None:
    """Add an entry about a row of an organisation, as `record` does."""
    kind, key = _SUBJECTS[type(row)]
    subject, owner = getattr(row, key), row.organisation_id
    record(session, action, kind, subject, organisation_id=owner, details=details)
