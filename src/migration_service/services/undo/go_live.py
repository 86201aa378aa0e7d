"""Go-live: from then on the accounts of a supplier are the platform's, and none of them can be undone."""

from datetime import datetime

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from migration_service.errors import ImportSupplierLiveError
from migration_service.models import ImportSupplier
from migration_service.schemas.moments import write_moment
from migration_service.services.access.audit import AuditAction, record
from migration_service.services.setup.suppliers import get_import_supplier


def set_live(session: Session, code: str, at: datetime | None) -> datetime:
    """Set when a supplier goes live (None: now), and return it. A date of the future can be changed.

    Accounts that a worker reverts at this moment are finished first. Raise ImportSupplierNotFoundError, and
    ImportSupplierLiveError if the supplier has gone live already.
    """
    supplier_id = get_import_supplier(session, code, organisation_id=None).id
    supplier = session.scalars(
        select(ImportSupplier).where(ImportSupplier.id == supplier_id).with_for_update(key_share=True)
    ).one()
    now: datetime = session.execute(select(func.clock_timestamp())).scalar_one()
    before = supplier.live_at
    if before is not None and before <= now:
        raise ImportSupplierLiveError(f"Import supplier {code!r} went live at {write_moment(before)}.")
    supplier.live_at = at or now
    record(
        session,
        AuditAction.SUPPLIER_LIVE_SET,
        "import_supplier",
        code,
        organisation_id=supplier.organisation_id,
        details={
            "live_at": write_moment(supplier.live_at),
            "before": write_moment(before) if before else None,
        },
    )
    return supplier.live_at
