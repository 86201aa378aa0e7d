"""An organisation's import suppliers, with the number of their accounts in each state."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from migration_service.db.base import one_of
from migration_service.models import AccountImportProcess, ImportSupplier
from migration_service.origin import current_origin
from migration_service.services.emails.customer_emails import read_policy
from migration_service.services.setup.suppliers import KnownSupplier, get_import_supplier
from migration_service.states import ImportState


@dataclass(frozen=True, slots=True)
class ImportSupplierReport:
    """An import supplier with the counts of its accounts."""

    import_supplier: str
    status: str
    profile: str
    time_zone: str
    #: Whether and when e-mails to customers are sent, and how many are held.
    customer_emails: bool
    emails_at: str
    emails_from: datetime | None
    emails_held: int
    #: The number of accounts in each state. A state without accounts has 0.
    counts: dict[str, int]


def report_import_suppliers(session: Session, organisation_id: int) -> list[ImportSupplierReport]:
    """Return the import suppliers that the caller may use, by code."""
    statement = select(ImportSupplier).where(ImportSupplier.organisation_id == organisation_id)
    allowed = current_origin().import_supplier_ids
    if allowed is not None:
        statement = statement.where(one_of(ImportSupplier.id.expression, allowed))
    return _report(session, session.scalars(statement.order_by(ImportSupplier.code)).all())


def report_import_supplier(session: Session, organisation_id: int, code: str) -> ImportSupplierReport:
    """Return one import supplier of the organisation, or raise ImportSupplierNotFoundError."""
    supplier = get_import_supplier(session, code, organisation_id=organisation_id)
    (report,) = _report(session, [supplier])
    return report


def _report(
    session: Session, suppliers: Iterable[ImportSupplier | KnownSupplier]
) -> list[ImportSupplierReport]:
    by_id = {supplier.id: supplier for supplier in suppliers}
    counts = count_states(session, by_id)
    policies = {pk: read_policy(session, pk) for pk in by_id}
    return [
        ImportSupplierReport(
            *(supplier.code, supplier.status, supplier.profile, supplier.time_zone),
            *(policies[pk].sends, policies[pk].at, policies[pk].at_moment, policies[pk].held),
            counts[pk],
        )
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
