"""The open work of a supplier, for those who decide about its go-live."""

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from migration_service.models import Undo, WavePlan
from migration_service.services.batches.results.listing import count_batches
from migration_service.services.reconciliation.verdict import judge
from migration_service.services.setup.suppliers import get_import_supplier, list_owned
from migration_service.services.waves.reports import report_plans
from migration_service.states import Problem

#: The kinds of open work, in display order.
OPEN_WORK = (
    "Accounts that are staged but not created",
    "Accounts and lines that are open for another reason: refused, waiting, or created from an older version",
    "Accounts of which a newer version was refused",
    "Lines that were open when they were removed",
    "Files that do not match their control totals",
    "Waves that have not ended",
    "Created accounts that differ",
    "Batches that are running or waiting",
    "Batches that somebody has to resume or cancel",
    "Undos that run",
    "Created accounts that have not been compared: reconcile the supplier",
    "Created accounts that cannot be compared, because the staged payloads were removed",
    "Totals of files that are not accounted for",
    "Accounts that differ from the figures of the old system",
)


def find_open_work(session: Session, code: str) -> list[tuple[str, int]]:
    """Return the open work of a supplier, as sentences of `OPEN_WORK` with their non-zero numbers."""
    supplier = get_import_supplier(session, code, organisation_id=None)
    verdict = judge(session, supplier.id)
    sent, problems = verdict.sent, verdict.problems
    batches = count_batches(session, organisation_id=None, import_supplier=code)
    plans = report_plans(session, list_owned(session, WavePlan, organisation_id=None, import_supplier=code))
    undos = select(func.count()).where(Undo.import_supplier_id == supplier.id, Undo.finished_at.is_(None))
    numbers = (
        sent.staged,
        sent.open - sent.staged,
        sent.staged_older_version + sent.created_older_version,
        problems.get(Problem.REMOVED, 0),
        problems.get(Problem.CONTROL_TOTALS, 0),
        sum(not wave.is_over for plan in plans if plan.finished_at is None for wave in plan.waves),
        problems.get(Problem.DIFFERING, 0),
        batches.running,
        batches.held,
        session.scalar(undos) or 0,
        problems.get(Problem.NOT_COMPARED, 0),
        problems.get(Problem.NOT_COMPARABLE, 0),
        problems.get(Problem.UNACCOUNTED, 0),
        problems.get(Problem.OLD_FIGURES, 0),
    )
    return [(what, number) for what, number in zip(OPEN_WORK, numbers, strict=True) if number]
