"""The request to start a batch, from any of the interfaces."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy.orm import Session

from migration_service.errors import ErrorItem, RequestFailedValidationError
from migration_service.origin import ActorKind, current_origin
from migration_service.schemas.json import encode_json
from migration_service.services.audit.entries import AuditAction, record
from migration_service.services.batches.error_thresholds import Brake
from migration_service.services.batches.intake.spool import SentFile
from migration_service.services.idempotency.keys import find_fault
from migration_service.states import BatchKind, BatchMode, BatchSource, Profile

#: An option of batches of pending accounts: include accounts of which a newer version was refused.
INCLUDE_OLDER_VERSIONS = "include_older_versions"


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchOrder:
    """The request for a batch: its mode, its lines and its options.

    Raise RequestFailedValidationError if the parts do not fit together.
    """

    mode: BatchMode
    #: The kind of data in the lines.
    kind: BatchKind = BatchKind.ACCOUNTS
    #: The non-default arguments of the single endpoint for transactions, by name, and INCLUDE_OLDER_VERSIONS
    #: for pending accounts.
    options: dict[str, bool] = field(default_factory=dict)
    operations_team_name: str | None = None
    #: A file, or all pending accounts of the supplier.
    source: BatchSource = BatchSource.UPLOAD
    api_key_id: int | None = None
    idempotency_key: str | None = None
    #: The batch's name, and the name of the uploaded file.
    name: str | None = None
    file_name: str | None = None
    #: The original file of the lines if they are repeated from an earlier batch. None for an upload.
    sent_file: SentFile | None = None
    #: The supplier's control totals, as returned by `read_control_totals`.
    control_totals: dict[str, Any] | None = None
    #: The profile used to validate the lines, or None for the supplier's profile.
    profile: Profile | None = None
    #: When the supplier extracted the accounts, or None if it did not say.
    extracted_at: datetime | None = None
    #: The error threshold, or None for the default of the mode.
    brake: Brake | None = None
    #: The import processes of a wave, whose batch is paused until the wave starts. None if it is no wave.
    wave_processes: Sequence[int] | None = None
    #: The largest number of lines processed in a minute, or None for no limit.
    lines_per_minute: int | None = None

    def __post_init__(self) -> None:
        errors = self._contradictions()
        if self.creates_accounts and self.operations_team_name is None:
            detail = f"Mode {self.mode} needs an operations team."
            errors.append(ErrorItem("required", detail, "operations_team_name"))
        if self.source is BatchSource.PENDING and not self.mode.creates:
            detail = "Pending accounts are already staged. Expected mode import or dry-run."
            errors.append(ErrorItem("invalid_choice", detail, "mode"))
        if self.idempotency_key and (fault := find_fault(self.idempotency_key)):
            errors.append(fault)
        if errors:
            raise RequestFailedValidationError(errors=errors)

    @property
    def creates_accounts(self) -> bool:
        """Return whether accounts are created, even in a dry run. This needs a team and slots."""
        return self.mode.creates and self.kind is BatchKind.ACCOUNTS

    def _contradictions(self) -> list[ErrorItem]:
        """Return an error for each option that does not apply to the kind of data."""
        errors = []
        if self.kind.is_added_data and self.mode is BatchMode.STAGE:
            detail = "Only accounts are staged. Expected mode validate, dry-run or import."
            errors.append(ErrorItem("invalid_choice", detail, "mode"))
        if self.kind.is_added_data and self.source is BatchSource.PENDING:
            detail = f"Only accounts are pending. Send the {self.kind} as a file."
            errors.append(ErrorItem("invalid_choice", detail, "source"))
        if self.kind.is_added_data and self.operations_team_name is not None:
            detail = "Only created accounts have a team. Leave it out."
            errors.append(ErrorItem("invalid", detail, "operations_team_name"))
        if self.extracted_at and (self.kind.is_added_data or self.source is BatchSource.PENDING):
            detail = "Only accounts that are sent have been extracted. Leave it out."
            errors.append(ErrorItem("invalid", detail, "extracted_at"))
        if self.control_totals is not None and (
            self.kind.is_added_data or self.source is BatchSource.PENDING
        ):
            detail = "Only a file of accounts has control totals. Leave them out."
            errors.append(ErrorItem("invalid", detail, "control_totals"))
        errors += self._faults_of_options()
        return errors

    def _faults_of_options(self) -> list[ErrorItem]:
        errors = []
        for name in self.options:
            fits = self.kind is BatchKind.TRANSACTIONS
            detail = f"Only a batch of transactions has this. This one is of kind {self.kind}: leave it out."
            if name == INCLUDE_OLDER_VERSIONS:
                fits = self.source is BatchSource.PENDING
                detail = "Only a batch of pending accounts has this. Leave it out."
            if not fits:
                errors.append(ErrorItem("invalid", detail, name))
        return errors

    @property
    def includes_older_versions(self) -> bool:
        """Return whether to create pending accounts of which a newer version was refused."""
        return self.options.get(INCLUDE_OLDER_VERSIONS, False)

    def identify(self, supplier_code: str) -> bytes:
        """Return bytes that identify the request. Retries with the same idempotency key must match them."""
        pending = self.source is BatchSource.PENDING
        asked: list[Any] = [supplier_code, self.mode, self.operations_team_name, pending]
        if self.kind.is_added_data:
            asked.append({"kind": self.kind, **self.options})
        elif self.options:
            asked.append(self.options)
        brake = [self.brake.to_dict()] if self.brake else []
        extract = [self.extracted_at] if self.extracted_at else []
        control = [{"control_totals": self.control_totals}] if self.control_totals else []
        return encode_json(asked + ([self.profile] if self.profile else []) + brake + extract + control)


def record_order(session: Session, order: BatchOrder, batch_id: UUID, organisation_id: int) -> None:
    """Record in the audit that a person started a batch.

    A client's batch needs no entry, because its row has the API key. A wave's plan has an entry already.
    """
    is_person = current_origin().kind in (ActorKind.OPERATOR, ActorKind.SYSTEM_USER)
    if not is_person or order.wave_processes is not None:
        return
    record(
        session,
        AuditAction.BATCH_ORDERED,
        "batch",
        batch_id,
        organisation_id=organisation_id,
        details={"mode": order.mode.value, "kind": order.kind.value},
    )
