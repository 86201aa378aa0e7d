"""Undo: how fast the accounts of a batch are reverted."""

import time
from statistics import median
from uuid import UUID

from sqlalchemy import func, select

from benchmarks import probes
from benchmarks.bench import Bench, Reading, Row
from benchmarks.costs import metered
from benchmarks.payloads import SUPPLIER
from migration_service.models import Batch, Undo, UndoLine
from migration_service.services.setup.suppliers import get_import_supplier
from migration_service.services.undo.orders import UndoOrder
from migration_service.services.undo.starting import start_undo
from migration_service.states import UndoOutcome
from migration_service.tasks.jobs import UNDOS, dispatch


def measure_undo(bench: Bench) -> Row:
    """Measure reverted accounts per second, of a batch that was just imported."""
    mine = [revert_batch(bench) for _ in range(max(2, bench.extent.rounds // 2))]
    rate = median(reading.rate for reading in mine)
    return Row("undo of a batch", rate, "accounts/s", "for information", None, readings=mine)


def revert_batch(bench: Bench) -> Reading:
    """Import a batch, and revert it. Its import is not measured."""
    count = bench.extent.batch
    probes.import_batch(bench, bench.take_numbers(count), count)
    started = time.perf_counter()
    with metered(bench.stack) as meter:
        undo_id = _start(bench)
        dispatch(bench.celery, bench.sessions, UNDOS)
        while not _is_over(bench, undo_id):
            time.sleep(0.02)
        seconds = time.perf_counter() - started
    with bench.sessions() as session:
        own = UndoLine.undo_id == undo_id, UndoLine.outcome == UndoOutcome.REVERTED
        done = session.scalar(select(func.count()).select_from(UndoLine).where(*own))
    assert done == count, f"{done} accounts of {count} are reverted"
    return Reading(count, count / seconds, costs=meter.of_one(count))


def _start(bench: Bench) -> UUID:
    """Start the undo of the newest batch, as `undo start` does."""
    with bench.sessions.begin() as session:
        supplier = get_import_supplier(session, SUPPLIER, organisation_id=None)
        batch = session.scalars(select(Batch).order_by(Batch.created_at.desc()).limit(1)).one()
        return start_undo(session, UndoOrder(supplier=supplier, batch=batch, reason="measured"))


def _is_over(bench: Bench, undo_id: UUID) -> bool:
    with bench.sessions() as session:
        return session.scalar(select(Undo.finished_at).where(Undo.id == undo_id)) is not None
