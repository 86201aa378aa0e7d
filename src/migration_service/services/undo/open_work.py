"""The open work of a supplier, for those who decide about its go-live."""

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from migration_service.models import Undo
from migration_service.services.batches.results.listing import count_batches
from migration_service.services.reconciliation.submitted import count_submitted
from migration_service.services.setup.suppliers import get_import_supplier
from migration_service.services.waves.reading import list_plans
from migration_service.services.waves.reports import report_plans

#: The kinds of open work, in display order.
OPEN_WORK = (
    "Accounts that are staged but not created",
    "Accounts and lines that are open for another reason: refused, waiting, or created from an older version",
    "Accounts of which a newer version was refused",
    "Refused lines of added data",
    "Waves that have not ended",
    "Accounts that differed when their wave was reconciled",
    "Batches that are running or waiting",
    "Batches that somebody has to resume or cancel",
    "Undos that run",
    "Created accounts that are not in a clean wave: reconcile them",
)


def find_open_work(session: Session, code: str) -> list[tuple[str, int]]:
    """Return the open work of a supplier, as sentences of `OPEN_WORK` with their non-zero numbers."""
    supplier = get_import_supplier(session, code, organisation_id=None)
    sent = count_submitted(session, supplier.id)
    batches = count_batches(session, organisation_id=None, import_supplier=code)
    plans = report_plans(session, list_plans(session, organisation_id=None, import_supplier=code))
    waves = [wave for plan in plans for wave in plan.waves]
    clean = sum(it.existing for it in waves if it.differing == 0 and it.open == 0 and not it.undone)
    undos = select(func.count()).where(Undo.import_supplier_id == supplier.id, Undo.finished_at.is_(None))
    numbers = (
        sent.staged,
        sent.open - sent.staged,
        sent.staged_older_version + sent.created_older_version,
        sent.added_lines_refused,
        sum(not wave.is_over for plan in plans if plan.finished_at is None for wave in plan.waves),
        sum(wave.differing or 0 for wave in waves if not wave.undone),
        batches.running,
        batches.held,
        session.scalar(undos) or 0,
        max(sent.created - clean, 0),
    )
    return [(what, number) for what, number in zip(OPEN_WORK, numbers, strict=True) if number]
