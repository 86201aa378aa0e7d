"""What somebody asks for who starts a batch."""

from dataclasses import dataclass
from typing import Any

from migration_service.errors import ErrorItem, RequestFailedValidationError
from migration_service.schemas.json import encode_json
from migration_service.services.batches.brakes import Brake
from migration_service.states import BatchMode, BatchSource, Profile

#: Characters of an idempotency key.
MAX_KEY = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchOrder:
    """What a batch is to do, and with which lines.

    Raise RequestFailedValidationError if the parts do not fit together.
    """

    mode: BatchMode
    operations_team_name: str | None = None
    #: A file, or everything that the supplier has pending.
    source: BatchSource = BatchSource.UPLOAD
    api_key_id: int | None = None
    idempotency_key: str | None = None
    #: What people call the batch, and the name of the file that the lines come in.
    name: str | None = None
    file_name: str | None = None
    #: The profile that the lines are validated under; None: the supplier's own.
    profile: Profile | None = None
    #: What pauses the batch after too many errors; None: what is usual for its mode.
    brake: Brake | None = None

    def __post_init__(self) -> None:
        key, errors = self.idempotency_key, []
        if self.mode.creates and self.operations_team_name is None:
            detail = f"Mode {self.mode} needs an operations team."
            errors.append(ErrorItem("required", detail, "operations_team_name"))
        if self.source is BatchSource.PENDING and not self.mode.creates:
            detail = "Pending accounts are already staged. Expected mode import or dry-run."
            errors.append(ErrorItem("invalid_choice", detail, "mode"))
        if key and not (len(key) <= MAX_KEY and key.isprintable()):
            detail = f"Expected at most {MAX_KEY} printable characters."
            errors.append(ErrorItem("invalid", detail, "Idempotency-Key"))
        if errors:
            raise RequestFailedValidationError(errors=errors)

    def identify(self, supplier_code: str) -> bytes:
        """Return what is asked for as bytes. A retry with the same idempotency key must ask for the same."""
        pending = self.source is BatchSource.PENDING
        asked: list[Any] = [supplier_code, self.mode, self.operations_team_name, pending]
        brake = [self.brake.to_dict()] if self.brake else []
        return encode_json(asked + ([self.profile] if self.profile else []) + brake)
