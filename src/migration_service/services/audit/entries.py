"""The audit: an entry for each act, written in the transaction of the act.

Frequent acts (staging, processing, adding data, lines of a batch, tokens) have no entries. The rows that they
write have the key, the request and the address. `audit_trail` reads both together.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from sqlalchemy.orm import Session

from migration_service.models import AuditEntry
from migration_service.origin import current_origin
from migration_service.states import AuditOutcome


class AuditAction(StrEnum):
    """The kinds of acts that have an audit entry."""

    ORGANISATION_CREATED = "organisation.created"
    SUPPLIER_CREATED = "import_supplier.created"
    SUPPLIER_STATUS_SET = "import_supplier.status_set"
    SUPPLIER_TIME_ZONE_SET = "import_supplier.time_zone_set"
    SUPPLIER_EMAILS_SET = "import_supplier.customer_emails_set"
    TEAM_CREATED = "operations_team.created"
    VENDOR_CREATED = "payment_vendor.created"
    VENDOR_RATE_SET = "payment_vendor.rate_set"
    LIMIT_SET = "concurrency_limit.set"
    API_KEY_ISSUED = "api_key.issued"
    API_KEY_ROLLED = "api_key.rolled"
    API_KEY_REVOKED = "api_key.revoked"
    SESSION_ENDED = "session.ended"
    ACCOUNT_SKIPPED = "account.skipped"
    ACCOUNT_UNSKIPPED = "account.unskipped"
    #: The personal data of an account was erased; the details have the reason.
    ACCOUNT_ERASED = "account.erased"
    #: Somebody accepted that refused accounts or lines are not imported.
    REFUSALS_ACKNOWLEDGED = "import_supplier.refusals_acknowledged"
    #: An operator read the personal data of an account.
    ACCOUNT_READ = "account.read"
    #: A person started a batch: an operator in the console, or somebody with a command.
    BATCH_ORDERED = "batch.ordered"
    BATCH_PAUSED = "batch.paused"
    BATCH_RESUMED = "batch.resumed"
    BATCH_CANCELLED = "batch.cancelled"
    BATCH_RETRIED = "batch.retried"
    #: A batch whose key was revoked runs for whoever resumed or retried it, from now on.
    BATCH_TAKEN_OVER = "batch.taken_over"
    #: What pauses a batch after too many errors was changed.
    BATCH_BRAKE_SET = "batch.brake_set"
    #: A supplier's control totals of the file of a batch were given.
    BATCH_CONTROL_TOTALS_SET = "batch.control_totals_set"
    #: An operator read the lines of a batch, or the open lines of an import supplier.
    BATCH_RESULTS_READ = "batch.results_read"
    #: Accounts are removed again; the details have the reason, and the blockers that were overridden.
    UNDO_STARTED = "undo.started"
    UNDO_CANCELLED = "undo.cancelled"
    #: The accounts of a supplier go live, and cannot be undone from then on.
    SUPPLIER_LIVE_SET = "import_supplier.live_set"
    WAVE_PLAN_CREATED = "wave_plan.created"
    #: The changes of `services.waves.states`, in its order.
    WAVE_QUEUED = "wave.queued"
    WAVE_BEGAN = "wave.began"
    WAVE_PAUSED = "wave.paused"
    WAVE_WENT_ON = "wave.went_on"
    WAVE_RECONCILED = "wave.reconciled"
    WAVE_REOPENED = "wave.reopened"
    WAVE_FOUND_CLEAN = "wave.found_clean"
    WAVE_FOUND_DIFFERENT = "wave.found_different"
    WAVE_UNDONE = "wave.undone"
    WAVE_APPROVED = "wave.approved"
    WAVE_STOPPED = "wave.stopped"
    #: A person resumed a wave outside its window: it goes on in the next one.
    WAVE_RELEASED = "wave.released"
    OPERATOR_CREATED = "operator.created"
    OPERATOR_ROLE_SET = "operator.role_set"
    OPERATOR_PASSWORD_SET = "operator.password_set"  # noqa: S105
    OPERATOR_DISABLED = "operator.disabled"
    OPERATOR_LOGGED_IN = "operator.logged_in"
    OPERATOR_LOGGED_OUT = "operator.logged_out"
    AUDIT_EXPORTED = "audit.exported"
    #: Refusals, which `refusals` writes.
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
    """Add the entry of an act to its transaction.

    `subject` identifies what was changed: a name, a prefix or an id. An account is named by the id of its
    process. Neither it nor `details` may hold personal data. `organisation_id` is the organisation that the
    act concerns, by default the actor's own.
    """
    origin = current_origin()
    session.add(
        AuditEntry(
            actor_kind=origin.kind,
            actor=origin.actor,
            organisation_id=organisation_id or origin.organisation_id,
            address=origin.address,
            request_id=origin.request_id,
            action=action,
            subject_kind=subject_kind,
            subject=str(subject),
            outcome=AuditOutcome.DONE,
            details=dict(details) if details else None,
        )
    )
