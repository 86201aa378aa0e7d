"""What somebody asks for who starts a batch."""

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

#: The option of a batch of what is pending: also the accounts of which a newer version was refused.
INCLUDE_OLDER_VERSIONS = "include_older_versions"


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchOrder:
    """What a batch is to do, and with which lines.

    Raise RequestFailedValidationError if the parts do not fit together.
    """

    mode: BatchMode
    #: What the lines are.
    kind: BatchKind = BatchKind.ACCOUNTS
    #: For transactions: the arguments of the single endpoint, by name, if they are not the default. For what
    #: is pending: INCLUDE_OLDER_VERSIONS.
    options: dict[str, bool] = field(default_factory=dict)
    operations_team_name: str | None = None
    #: A file, or everything that the supplier has pending.
    source: BatchSource = BatchSource.UPLOAD
    api_key_id: int | None = None
    idempotency_key: str | None = None
    #: What people call the batch, and the name of the file that the lines come in.
    name: str | None = None
    file_name: str | None = None
    #: The file that the lines once came in, if they are those of an earlier batch. None: what is sent now.
    sent_file: SentFile | None = None
    #: What the supplier says that the file adds up to, as `read_control_totals` returns it.
    control_totals: dict[str, Any] | None = None
    #: The profile that the lines are validated under; None: the supplier's own.
    profile: Profile | None = None
    #: When the supplier extracted the accounts, if it says so.
    extracted_at: datetime | None = None
    #: What pauses the batch after too many errors; None: what is usual for its mode.
    brake: Brake | None = None
    #: The import processes of a wave, whose batch is paused until the wave begins; None: it is no wave.
    wave_processes: Sequence[int] | None = None
    #: At most so many lines are worked on in a minute.
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
        """Return whether accounts are created, also in a dry run. This needs a team, and slots."""
        return self.mode.creates and self.kind is BatchKind.ACCOUNTS

    def _contradictions(self) -> list[ErrorItem]:
        """Return an error for each part that the kind does not have."""
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
                detail = "Only a batch of what is pending has this. Leave it out."
            if not fits:
                errors.append(ErrorItem("invalid", detail, name))
        return errors

    @property
    def includes_older_versions(self) -> bool:
        """Return whether pending accounts are created of which a newer version was refused."""
        return self.options.get(INCLUDE_OLDER_VERSIONS, False)

    def identify(self, supplier_code: str) -> bytes:
        """Return what is asked for as bytes. A retry with the same idempotency key must ask for the same."""
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
    """Write into the audit that a person started a batch.

    The batch of a client needs no entry: its own row has the key. Nor does that of a wave: its plan has one.
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
