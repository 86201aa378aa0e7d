"""The request to start a batch, from any of the interfaces."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy.orm import Session

from migration_payloads.profile import Profile
from migration_payloads.schemas.json import encode_json
from migration_service.errors import ErrorItem, RequestFailedValidationError
from migration_service.origin import ActorKind, current_origin
from migration_service.services.audit.entries import AuditAction, record
from migration_service.services.batches.error_thresholds import ErrorThreshold
from migration_service.services.batches.intake.spool import SentFile
from migration_service.services.idempotency.keys import find_fault
from migration_service.states import BatchKind, BatchMode, BatchSource, Replace

#: An option of batches of pending accounts: include accounts of which a newer version was refused.
INCLUDE_OLDER_VERSIONS = "include_older_versions"
#: An option of batches that create accounts: replace those that exist and differ from a newer version.
REPLACE_DIFFERING = "replace_differing"


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchOrder:
    """The request for a batch. Raise RequestFailedValidationError if the parts do not fit together."""

    mode: BatchMode
    kind: BatchKind = BatchKind.ACCOUNTS
    #: The non-default arguments of the single endpoint for transactions, by name, INCLUDE_OLDER_VERSIONS for
    #: pending accounts, and REPLACE_DIFFERING.
    options: dict[str, bool] = field(default_factory=dict)
    operations_team_name: str | None = None
    #: A file, or all pending accounts of the supplier.
    source: BatchSource = BatchSource.UPLOAD
    api_key_id: int | None = None
    idempotency_key: str | None = None
    name: str | None = None
    file_name: str | None = None
    #: The original file of the lines if they are repeated from an earlier batch. None for an upload.
    sent_file: SentFile | None = None
    control_totals: dict[str, Any] | None = None
    #: The profile used to validate the lines, or None for the supplier's profile.
    profile: Profile | None = None
    extracted_at: datetime | None = None
    #: The error threshold, or None for the default of the mode.
    error_threshold: ErrorThreshold | None = None
    #: The import processes of a wave, whose batch is paused until the wave starts. None if it is no wave.
    wave_processes: Sequence[int] | None = None
    lines_per_minute: int | None = None
    #: The only import processes of pending accounts, and of created ones to replace. None for all.
    processes: Sequence[int] | None = None
    #: Why accounts are replaced, and who decided, if that is known.
    reason: str | None = None
    by: str | None = None

    def __post_init__(self) -> None:
        errors = []

        def refuse(is_wrong: object, attr: str, detail: str, code: str = "invalid") -> None:
            if is_wrong:
                errors.append(ErrorItem(code, detail, attr))

        adds, is_pending = not self.has_accounts, self.source is BatchSource.PENDING
        detail = "Only accounts are staged. Expected mode validate, dry-run or import."
        refuse(adds and self.mode is BatchMode.STAGE, "mode", detail, "invalid_choice")
        detail = f"Only accounts are pending. Send the {self.kind} as a file."
        refuse(adds and is_pending, "source", detail, "invalid_choice")
        detail = "Only created accounts have a team. Leave it out."
        refuse(adds and self.operations_team_name is not None, "operations_team_name", detail)
        detail = "Only accounts that are sent have been extracted. Leave it out."
        refuse(self.extracted_at and (adds or is_pending), "extracted_at", detail)
        detail = "Only a file of accounts has control totals. Leave them out."
        refuse(self.control_totals is not None and (adds or is_pending), "control_totals", detail)
        for name in self.options:
            fits = self.kind is BatchKind.TRANSACTIONS
            detail = f"Only a batch of transactions has this. This one is of kind {self.kind}: leave it out."
            if name == INCLUDE_OLDER_VERSIONS:
                fits, detail = is_pending, "Only a batch of pending accounts has this. Leave it out."
            elif name == REPLACE_DIFFERING:
                fits, detail = self.creates_accounts, "Only accounts that are imported replace others."
            refuse(not fits, "replace" if name == REPLACE_DIFFERING else name, detail)
        is_teamless = self.creates_accounts and self.operations_team_name is None
        refuse(is_teamless, "operations_team_name", f"Mode {self.mode} needs an operations team.", "required")
        detail = "Pending accounts are already staged. Expected mode import or dry-run."
        refuse(is_pending and not self.mode.creates, "mode", detail, "invalid_choice")
        if self.idempotency_key and (fault := find_fault(self.idempotency_key)):
            errors.append(fault)
        if errors:
            raise RequestFailedValidationError(errors=errors)

    @property
    def has_accounts(self) -> bool:
        """Return whether the lines are accounts, sent or pending."""
        return not self.kind.is_added_data

    @property
    def creates_accounts(self) -> bool:
        """Return whether accounts are created, even in a dry run. This needs a team and slots."""
        return self.mode.creates and self.has_accounts

    def identify(self, supplier_code: str) -> bytes:
        """Return bytes that identify the request. Retries with the same idempotency key must match them."""
        pending = self.source is BatchSource.PENDING
        asked: list[Any] = [supplier_code, self.mode, self.operations_team_name, pending]
        options = self.options if self.has_accounts else {"kind": self.kind, **self.options}
        threshold = self.error_threshold and self.error_threshold.to_dict()
        control = self.control_totals and {"control_totals": self.control_totals}
        others = (options, self.profile, threshold, self.extracted_at, control)
        return encode_json(asked + [other for other in others if other])


def record_order(session: Session, order: BatchOrder, batch_id: UUID, organisation_id: int) -> None:
    """Record in the audit that a person started a batch, or that somebody started one that replaces accounts.

    Another batch of a client needs no entry, because its row has the API key. A wave's plan has an entry
    already.
    """
    is_person = current_origin().kind in (ActorKind.OPERATOR, ActorKind.SYSTEM_USER)
    replaces = REPLACE_DIFFERING in order.options
    if not (is_person or replaces) or order.wave_processes is not None:
        return
    details = {"mode": order.mode.value, "kind": order.kind.value}
    if replaces:
        told = {"reason": order.reason, "by": order.by}
        details |= {"replace": Replace.DIFFERING.value, **{name: it for name, it in told.items() if it}}
    action = AuditAction.REPLACEMENT_ORDERED if replaces else AuditAction.BATCH_ORDERED
    record(session, action, "batch", batch_id, organisation_id=organisation_id, details=details)
