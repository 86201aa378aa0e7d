"""An organisation's import suppliers, with the number of their accounts in each state."""

from collections.abc import Iterable
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from migration_service.db.base import one_of
from migration_service.models import AccountImportProcess, ImportSupplier
from migration_service.origin import current_origin
from migration_service.services.emails.customer_emails import count_held
from migration_service.services.setup.suppliers import get_import_supplier
from migration_service.states import ImportState


def report_import_suppliers(session: Session, organisation_id: int) -> list[dict[str, Any]]:
    """Return the import suppliers that the caller may use, by code, with the names of the interface."""
    statement = select(ImportSupplier).where(ImportSupplier.organisation_id == organisation_id)
    allowed = current_origin().import_supplier_ids
    if allowed is not None:
        statement = statement.where(one_of(ImportSupplier.id.expression, allowed))
    return _report(session, session.scalars(statement.order_by(ImportSupplier.code)).all())


def report_import_supplier(session: Session, organisation_id: int, code: str) -> dict[str, Any]:
    """Return one import supplier of the organisation, or raise ImportSupplierNotFoundError."""
    known = get_import_supplier(session, code, organisation_id=organisation_id)
    (report,) = _report(session, [session.get_one(ImportSupplier, known.id)])
    return report


def _report(session: Session, suppliers: Iterable[ImportSupplier]) -> list[dict[str, Any]]:
    by_id = {supplier.id: supplier for supplier in suppliers}
    counts = count_states(session, by_id)
    return [
        {
            "import_supplier": supplier.code,
            "status": supplier.status,
            "profile": supplier.profile,
            "time_zone": supplier.time_zone,
            "customer_emails": supplier.sends_customer_emails,
            "emails_at": supplier.emails_at,
            "emails_from": supplier.emails_from,
            "emails_held": count_held(session, pk),
            "counts": counts[pk],
        }
        for pk, supplier in by_id.items()
    ]


def count_states(session: Session, import_supplier_ids: Iterable[int]) -> dict[int, dict[str, int]]:
    """Return the number of accounts in each state, by the id of the supplier."""
    counts = {pk: dict.fromkeys(map(str, ImportState), 0) for pk in import_supplier_ids}
    counted = session.execute(
        select(AccountImportProcess.import_supplier_id, AccountImportProcess.state, func.count())
        .where(AccountImportProcess.import_supplier_id.in_(counts))
        .group_by(AccountImportProcess.import_supplier_id, AccountImportProcess.state)
    )
    for pk, state, count in counted:
        counts[pk][state] = count
    return counts
