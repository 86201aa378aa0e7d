"""Go-live, after which the accounts of a supplier belong to the platform and cannot be undone."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from migration_payloads.moments import write_moment
from migration_service.errors import GoLiveFarError, GoLivePastError, ImportSupplierLiveError
from migration_service.models import Account, ImportSupplier
from migration_service.origin import current_origin
from migration_service.services.accounts.ownership import has_gone_live
from migration_service.services.audit.entries import AuditAction, record
from migration_service.services.batches.clock import read_clock
from migration_service.services.setup.suppliers import get_import_supplier

#: A go-live further in the future counts as a mistake.
_FARTHEST = timedelta(days=5 * 366)


@dataclass(frozen=True, slots=True, kw_only=True)
class GoLivePreview:
    """The effect of a go-live, to show before it is confirmed."""

    import_supplier: str
    live_at: datetime
    is_past: bool
    #: The future date that it replaces, and the number of existing accounts, which could still be undone.
    before: datetime | None
    accounts: int


def preview_live(session: Session, code: str, at: datetime | None) -> GoLivePreview:
    """Return the effect of a go-live at this time, or now if it is None. Nothing is changed."""
    supplier, now = _find(session, code, at)
    accounts = select(func.count()).where(Account.import_supplier_id == supplier.id)
    return GoLivePreview(
        import_supplier=code,
        live_at=at or now,
        is_past=at is not None and at <= now,
        before=supplier.live_at,
        accounts=session.scalar(accounts) or 0,
    )


def set_live(
    session: Session, code: str, at: datetime | None, *, may_be_past: bool = False, by: str | None = None
) -> datetime:
    """Set the go-live of a supplier, by default to now, and return it. A future go-live can still be changed.

    Accounts that a worker is reverting are finished first. `by` names the person who decided, if not the
    actor. Raise GoLivePastError if the time is in the past and that was not confirmed.
    """
    supplier, now = _find(session, code, at, locked=True)
    if at is not None and at <= now and not may_be_past:
        raise GoLivePastError(found=write_moment(at))
    before, supplier.live_at = supplier.live_at, at or now
    supplier.live_by = by or current_origin().actor
    details = {
        "live_at": write_moment(supplier.live_at),
        "before": write_moment(before) if before else None,
        **({"by": by} if by else {}),
    }
    action, owner = AuditAction.SUPPLIER_LIVE_SET, supplier.organisation_id
    record(session, action, "import_supplier", code, organisation_id=owner, details=details)
    return supplier.live_at


def _find(
    session: Session, code: str, at: datetime | None, *, locked: bool = False
) -> tuple[ImportSupplier, datetime]:
    """Return the supplier, and the time now.

    Raise ImportSupplierLiveError if it has gone live already, and GoLiveFarError if `at` is too far away.
    """
    supplier_id = get_import_supplier(session, code, organisation_id=None).id
    found = select(ImportSupplier).where(ImportSupplier.id == supplier_id)
    supplier = session.scalars(found.with_for_update(key_share=True) if locked else found).one()
    now = read_clock(session)
    if has_gone_live(session, supplier_id) and supplier.live_at:
        went_at = write_moment(supplier.live_at)
        raise ImportSupplierLiveError(f"Import supplier {supplier.code!r} went live at {went_at}.")
    if at is not None and at > now + _FARTHEST:
        raise GoLiveFarError(found=write_moment(at))
    return supplier, now
