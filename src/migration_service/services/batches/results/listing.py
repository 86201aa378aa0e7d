"""Listing and counting batches."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from sqlalchemy import ColumnElement, and_, func, select
from sqlalchemy.dialects.postgresql import distinct_on
from sqlalchemy.orm import Session

from migration_service.models import Batch, ImportSupplier, OperationsTeam
from migration_service.services.batches.control import BatchReport, fields_of
from migration_service.services.batches.results.counts import count_lines
from migration_service.services.batches.results.reverted import count_created, count_reverted
from migration_service.services.batches.states import OPEN, WINDOW_CLOSED
from migration_service.services.setup.suppliers import which_are_owned
from migration_service.states import BatchKind, BatchMode, BatchState

_OVER = (BatchState.COMPLETED, BatchState.CANCELLED)
#: A batch that waits for its wave's window resumes automatically.
_WAITS_FOR_WINDOW = Batch.reason.is_not_distinct_from(WINDOW_CLOSED)


@dataclass(frozen=True, slots=True)
class BatchTotals:
    """Numbers of batches."""

    batches: int
    #: Batches that are running, or waiting for their supplier.
    running: int
    #: Batches that continue only if somebody resumes them.
    held: int


def list_batches(
    session: Session,
    *,
    organisation_id: int | None,
    import_supplier: str | None = None,
    kind: BatchKind | None = None,
    state: BatchState | None = None,
    only_open: bool = False,
    before: UUID | None = None,
    limit: int = 50,
) -> list[BatchReport]:
    """Return the batches older than `before`, newest first, of the organisation or of all if it is None.

    `only_open` leaves out batches that have ended or wait for their wave's window.
    """
    statement = (
        select(Batch, ImportSupplier.code, OperationsTeam.name)
        .join(ImportSupplier, ImportSupplier.id == Batch.import_supplier_id)
        .outerjoin(OperationsTeam, OperationsTeam.id == Batch.operations_team_id)
        .where(*_wanted(organisation_id, import_supplier, kind, state))
        .order_by(Batch.id.desc())  # in chronological order
        .limit(limit)
    )
    if only_open:
        statement = statement.where(Batch.state.not_in(_OVER), ~_WAITS_FOR_WINDOW)
    if before is not None:
        statement = statement.where(Batch.id < before)
    rows = session.execute(statement).all()
    counts = count_lines(session, [batch.id for batch, _, _ in rows])
    created = [batch_id for batch_id, found in counts.items() if count_created(found)]
    reverted = count_reverted(session, created)
    return [
        BatchReport(**fields_of(batch, supplier, team, counts[batch.id], reverted.get(batch.id)))
        for batch, supplier, team in rows
    ]


def count_batches(
    session: Session,
    *,
    organisation_id: int | None,
    import_supplier: str | None = None,
    kind: BatchKind | None = None,
    state: BatchState | None = None,
) -> BatchTotals:
    """Return the number of batches that `list_batches` would return without a limit."""
    held = and_(Batch.state.not_in((*_OVER, *OPEN)), ~_WAITS_FOR_WINDOW)
    row = session.execute(
        select(func.count(), func.count().filter(Batch.state.in_(OPEN)), func.count().filter(held))
        .select_from(Batch)
        .join(ImportSupplier, ImportSupplier.id == Batch.import_supplier_id)
        .where(*_wanted(organisation_id, import_supplier, kind, state))
    ).one()
    return BatchTotals(*row)


def list_newest(session: Session, import_supplier_id: int) -> dict[BatchMode, tuple[UUID, datetime | None]]:
    """Return the newest batch of accounts of each mode that has ended, and when it did."""
    ended = (Batch.kind == BatchKind.ACCOUNTS) & (Batch.state == BatchState.COMPLETED)
    wanted = select(Batch.mode, Batch.id, Batch.finished_at).where(
        Batch.import_supplier_id == import_supplier_id, ended
    )
    newest = wanted.ext(distinct_on(Batch.mode)).order_by(Batch.mode, Batch.id.desc())
    return {BatchMode(mode): (batch_id, at) for mode, batch_id, at in session.execute(newest)}


def _wanted(
    organisation_id: int | None, import_supplier: str | None, kind: BatchKind | None, state: BatchState | None
) -> list[ColumnElement[bool]]:
    own = which_are_owned(Batch, organisation_id, import_supplier)
    given = ((Batch.kind, kind), (Batch.state, state))
    return own + [column == value for column, value in given if value is not None]
