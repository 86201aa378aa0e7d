"""The request to undo imports: the accounts, the reason and the overridden blockers."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy.orm import Session

from migration_service import errors
from migration_service.models import Batch
from migration_service.services.access.operators import OperatorRole
from migration_service.services.batches.control import get_batch_with_lines
from migration_service.services.batches.undo_guards import require_batch_at_rest, require_plan_at_rest
from migration_service.services.setup.suppliers import KnownSupplier
from migration_service.services.undo.added_data import trace_of
from migration_service.services.waves.reading import get_plan, get_wave
from migration_service.states import BatchKind, UndoBlocker


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoOrder:
    """The accounts to revert: those created by a batch, or those with these numbers.

    Of a batch of added data only what it has added is taken back.
    """

    supplier: KnownSupplier
    batch: Batch | None = None
    external_account_numbers: Sequence[str] = ()
    #: The reason, without personal data, and the name of the person who decided, if not the actor.
    reason: str = ""
    by: str | None = None
    overrides: frozenset[UndoBlocker] = frozenset()

    def values(self) -> dict[str, Any]:
        """Return the parameters of the statements that find the accounts."""
        return {
            "import_supplier_id": self.supplier.id,
            "batch_id": self.batch and self.batch.id,
            "numbers": list(self.external_account_numbers),
            **({"trace": trace_of(self.batch)} if self.adds_data else {}),
        }

    @property
    def adds_data(self) -> bool:
        """Return whether the batch has added data to accounts."""
        return self.batch is not None and BatchKind(self.batch.kind).is_added_data


def get_batch_of_supplier(session: Session, batch_id: str, supplier: KnownSupplier) -> Batch:
    """Return the batch of the supplier, if it has its lines."""
    batch = get_batch_with_lines(session, batch_id, organisation_id=supplier.organisation_id)
    if batch.import_supplier_id != supplier.id:
        raise errors.BatchNotFoundError(found=batch_id)
    return batch


def get_batch_of_accounts(session: Session, batch_id: str, supplier: KnownSupplier) -> Batch:
    """Return the batch of the supplier, if it is of accounts and has its lines."""
    batch = get_batch_of_supplier(session, batch_id, supplier)
    if batch.kind != BatchKind.ACCOUNTS:
        raise errors.BatchStateError(
            f"The batch is of kind {batch.kind}. This is only possible if it has accounts."
        )
    return batch


def get_batch_to_undo(session: Session, batch_id: str, supplier: KnownSupplier) -> Batch:
    """Return the batch, of accounts or of added data, if it is at rest, as its plan."""
    batch = get_batch_of_supplier(session, batch_id, supplier)
    require_batch_at_rest(batch)
    require_plan_at_rest(session, batch)
    return batch


def batch_in_body(session: Session, body: Mapping[str, Any], supplier: KnownSupplier) -> str | None:
    """Return the id of the batch that a body names, or of its wave of the supplier, or None."""
    if not (wave := body.get("wave")):
        return body.get("batch")
    plan = get_plan(session, wave["plan_id"], organisation_id=supplier.organisation_id)
    if plan.import_supplier_id != supplier.id:
        raise errors.WavePlanNotFoundError(found=wave["plan_id"])
    return str(get_wave(session, plan, wave["number"]).batch_id)


def require_known(
    numbers: Sequence[str], known: Collection[str], error: type[errors.ServiceError], detail: str
) -> None:
    """Raise RequestFailedValidationError with each number that is not known.

    Each has the code of `error`, and `detail` with the number in the place of `{!r}`.
    """
    missing = [
        errors.ErrorItem(error.code, detail.format(number), f"external_account_numbers.{index}")
        for index, number in enumerate(numbers)
        if number not in known
    ]
    if missing:
        raise errors.RequestFailedValidationError(missing[0].detail, errors=missing)


def require_overrides_allowed(overrides: frozenset[UndoBlocker], role: OperatorRole | None) -> None:
    """Raise an error if `role`, which is None for an API key, or nobody may override one of the blockers."""
    faults = [
        errors.ErrorItem("invalid_choice", f"The blocker {blocker} cannot be overridden.", "overrides")
        for blocker in sorted(overrides)
        if not blocker.may_be_overridden
    ]
    if faults:
        raise errors.RequestFailedValidationError(errors=faults)
    if overrides and (role is None or not role.includes(OperatorRole.ADMINISTER)):
        raise errors.PermissionDeniedError("Only an administrator can override the blockers of an undo.")
