"""Comparisons as jobs: started, done in pieces by whoever has time, and kept.

The row of a comparison says what is compared next. Who locks it does one piece, and commits the sums, the
accounts that differ and the next place together, so a piece is done once, and a kill loses only the piece
that was being done. Requests and commands that wait do pieces themselves, so that a small book is compared as
quickly as if there were no job. Workers do the rest, a message for each few seconds, in turn with all other
work. For each supplier, and each of its batches, the newest comparison that has ended is kept.
"""

import time
from collections.abc import Iterator
from enum import StrEnum
from typing import Any, TypeAlias
from uuid import UUID

import msgspec
from psycopg.errors import QueryCanceled
from sqlalchemy import Uuid, bindparam, delete, func, select, text
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session, sessionmaker

from migration_payloads.normal_form import read_json
from migration_payloads.schemas.json import encode_json, finite
from migration_service.db.base import new_id
from migration_service.db.jobs import Progress
from migration_service.errors import BatchNotFoundError
from migration_service.models import Batch, ComparedAccount, Comparison
from migration_service.services.batches.control import get_batch, get_batch_with_lines
from migration_service.services.reconciliation.added_data import compare_chunks, find_next_batch
from migration_service.services.reconciliation.book_totals import add_repeated_lines, add_unstaged_lines
from migration_service.services.reconciliation.created_accounts import compare_page
from migration_service.services.reconciliation.differences import AccountDifference, Totals
from migration_service.services.reconciliation.old_figures import compare_figures
from migration_service.services.reconciliation.submitted import is_of_added_data
from migration_service.services.setup.suppliers import KnownSupplier
from migration_service.states import BatchKind, BatchMode

#: The next place, the number of items that were compared, and the accounts that differ.
_Step: TypeAlias = tuple[dict[str, Any] | None, int, list[AccountDifference]]
#: Accounts that differ and are read together.
PAGE = 500
#: Seconds until whoever waits looks again at a comparison of which somebody else does a piece.
_LOOK_AGAIN = 0.1


class Stage(StrEnum):
    """What a comparison compares, in order."""

    ACCOUNTS = "accounts"
    UNSTAGED_LINES = "unstaged lines"
    REPEATED_LINES = "repeated lines"
    ADDED_DATA = "added data"
    OLD_FIGURES = "old figures"


def start_comparison(
    session: Session, supplier: KnownSupplier, batch_id: UUID | None = None, *, is_full: bool = False
) -> tuple[Comparison, bool]:
    """Start comparing a supplier's book, or a batch. Return the comparison, and whether it is a new one.

    If the same is being compared already, return that comparison. With `is_full`, all accounts are compared,
    even if no row of theirs has changed since the comparison that is kept.
    """
    adds_data = is_of_added_data(session, batch_id)
    values = {"import_supplier_id": supplier.id, "batch_id": batch_id}
    running = select(Comparison).where(
        Comparison.import_supplier_id == supplier.id,
        Comparison.batch_id.is_not_distinct_from(batch_id),
        Comparison.finished_at.is_(None),
    )
    if is_full:  # one that is not begins again as one that is
        of_changes = running.where(~Comparison.is_full).with_only_columns(Comparison.id)
        session.execute(delete(Comparison).where(Comparison.id.in_(of_changes)))
    started = insert(Comparison).values(
        id=new_id(),
        organisation_id=supplier.organisation_id,
        stage=Stage.ADDED_DATA if adds_data else Stage.ACCOUNTS,
        items=session.scalar(_COUNT_ITEMS, values),
        is_full=is_full,
        **values,
    )
    new_ids = session.scalars(started.on_conflict_do_nothing().returning(Comparison.id)).all()
    return session.scalars(running.execution_options(populate_existing=True)).one(), bool(new_ids)


def resume_comparison(
    session: Session,
    supplier: KnownSupplier,
    batch_id: UUID | None,
    wanted: UUID | None,
    *,
    is_full: bool = False,
) -> UUID | None:
    """Return the id of the comparison that is being made: the wanted one, or else one that is started now.

    Return None if the wanted one, or a later one, has ended and is kept.
    """
    kept = find_kept(session, supplier.id, batch_id)
    if wanted is not None and kept is not None and kept.id >= wanted:
        return None
    return start_comparison(session, supplier, batch_id, is_full=is_full)[0].id


def wait_for_comparison(
    sessions: sessionmaker[Session], comparison_id: UUID, *, seconds: float | None = None
) -> bool:
    """Do pieces of a comparison for some seconds, or until it has ended. Return whether it has."""
    until = None if seconds is None else time.monotonic() + seconds
    while True:
        try:
            with sessions.begin() as session:
                progress = do_piece(session, comparison_id)
        except DBAPIError as error:
            if until is None or not isinstance(error.orig, QueryCanceled):
                raise
            return False  # a piece that takes longer than a request may, which workers have time for
        if progress is Progress.OVER:
            return True
        if until is not None and time.monotonic() >= until:
            return False
        if progress is Progress.WAITS:
            time.sleep(_LOOK_AGAIN)


def do_piece(session: Session, comparison_id: UUID) -> Progress:
    """Compare one piece, unless somebody else is doing one. The caller commits."""
    mine = select(Comparison).where(Comparison.id == comparison_id, Comparison.finished_at.is_(None))
    comparison = session.scalars(
        mine.with_for_update(skip_locked=True).execution_options(populate_existing=True)
    ).one_or_none()
    if comparison is None:
        return Progress.WAITS if session.scalar(select(mine.exists())) else Progress.OVER
    totals = msgspec.convert(comparison.totals, Totals)
    before = totals.differing
    place, done, found = _COMPARE[Stage(comparison.stage)](session, comparison, totals)
    for number, account in enumerate(found, before + 1):
        session.add(
            ComparedAccount(
                comparison_id=comparison.id,
                number=number,
                external_account_number=account.external_account_number,
                found=encode_json(finite(account)).decode(),
            )
        )
    comparison.totals = msgspec.to_builtins(totals)
    comparison.done += done
    comparison.place = place
    comparison.dispatched_at = func.clock_timestamp()
    following = Stage(comparison.stage) if place is not None else _next_stage(session, comparison)
    if following is None:
        _finish(session, comparison)
        return Progress.OVER
    comparison.stage = following
    return Progress.WORKED


def find_kept(
    session: Session, import_supplier_id: int, batch_id: UUID | None = None, *, ended: bool = True
) -> Comparison | None:
    """Return the comparison of a supplier or a batch that is kept, or the one that is being made."""
    return session.scalars(
        select(Comparison).where(
            Comparison.import_supplier_id == import_supplier_id,
            Comparison.batch_id.is_not_distinct_from(batch_id),
            Comparison.finished_at.is_not(None) if ended else Comparison.finished_at.is_(None),
        )
    ).one_or_none()


def read_totals(comparison: Comparison) -> Totals:
    """Return the sums of a comparison."""
    return msgspec.convert(comparison.totals, Totals)


def estimate_time_left(session: Session, comparison: Comparison) -> float | None:
    """Return the seconds until a comparison ends if it goes on as before, or None if nothing is known."""
    if not comparison.done:
        return None
    taken = session.scalar(select(func.extract("epoch", func.clock_timestamp() - comparison.started_at)))
    return round(float(taken or 0) * max(comparison.items - comparison.done, 0) / comparison.done, 1)


def list_differing(session: Session, comparison: Comparison, *, limit: int) -> list[AccountDifference]:
    """Return the first accounts that differ, by number (or by line of the batch)."""
    return [account for _, account in _read_differing(session, comparison, 0, limit)]


def stream_differing(sessions: sessionmaker[Session], comparison: Comparison) -> Iterator[AccountDifference]:
    """Yield all accounts that differ. Each page is read in a separate transaction."""
    after = 0
    while True:
        with sessions.begin() as session:
            page = _read_differing(session, comparison, after, PAGE)
        yield from (account for _, account in page)
        if len(page) < PAGE:
            return
        after = page[-1][0]


def _read_differing(
    session: Session, comparison: Comparison, after: int, limit: int
) -> list[tuple[int, AccountDifference]]:
    rows = session.execute(
        select(ComparedAccount.number, ComparedAccount.found)
        .where(ComparedAccount.comparison_id == comparison.id, ComparedAccount.number > after)
        .order_by(ComparedAccount.number)
        .limit(limit)
    )
    return [(number, msgspec.convert(read_json(found), AccountDifference)) for number, found in rows]


def _compare_accounts(session: Session, comparison: Comparison, totals: Totals) -> _Step:
    after = (comparison.place or {}).get("after", "" if comparison.batch_id is None else 0)
    kept = find_kept(session, comparison.import_supplier_id, comparison.batch_id)
    kept_id = kept.id if kept and not comparison.is_full else None
    after, number, found = compare_page(session, comparison, totals, after=after, kept_id=kept_id)
    return None if after is None else {"after": after}, number, found


def _compare_lines(session: Session, comparison: Comparison, totals: Totals) -> _Step:
    add = add_unstaged_lines if comparison.stage == Stage.UNSTAGED_LINES else add_repeated_lines
    scope = {"import_supplier_id": comparison.import_supplier_id, "batch_id": comparison.batch_id}
    return add(session, {"comparison_id": comparison.id, **scope}, totals, comparison.place), 0, []


def _compare_added(session: Session, comparison: Comparison, totals: Totals) -> _Step:
    place = comparison.place or {"batch": None, "after": 0}
    current = comparison.batch_id or (place["batch"] and UUID(place["batch"]))
    if current is None:
        current = find_next_batch(session, comparison.import_supplier_id, None)
        if current is None:
            return None, 0, []
    batch = session.get_one(Batch, current)
    is_alone = comparison.batch_id is not None
    after, number, found = compare_chunks(session, totals, batch, after=place["after"], is_alone=is_alone)
    if after is not None:
        return {"batch": str(current), "after": after}, number, found
    following = None if is_alone else find_next_batch(session, comparison.import_supplier_id, current)
    return {"batch": str(following), "after": 0} if following else None, number, found


def _compare_figures(session: Session, comparison: Comparison, totals: Totals) -> _Step:
    return compare_figures(session, comparison, totals.figures), 0, []


_COMPARE = {
    Stage.ACCOUNTS: _compare_accounts,
    Stage.UNSTAGED_LINES: _compare_lines,
    Stage.REPEATED_LINES: _compare_lines,
    Stage.ADDED_DATA: _compare_added,
    Stage.OLD_FIGURES: _compare_figures,
}


def _next_stage(session: Session, comparison: Comparison) -> Stage | None:
    match comparison.stage:
        case Stage.ACCOUNTS:
            return Stage.UNSTAGED_LINES
        case Stage.UNSTAGED_LINES:
            return Stage.ADDED_DATA if comparison.batch_id is None else Stage.REPEATED_LINES
        case Stage.OLD_FIGURES:
            return None
    return None if is_of_added_data(session, comparison.batch_id) else Stage.OLD_FIGURES


def _finish(session: Session, comparison: Comparison) -> None:
    """End a comparison, which now replaces the one that was kept."""
    session.execute(
        delete(Comparison).where(
            Comparison.import_supplier_id == comparison.import_supplier_id,
            Comparison.batch_id.is_not_distinct_from(comparison.batch_id),
            Comparison.finished_at.is_not(None),
        )
    )
    comparison.done = comparison.items
    comparison.finished_at = func.clock_timestamp()


# Accounts, and lines of added data.
_COUNT_ITEMS = text(f"""
    SELECT CASE WHEN CAST(:batch_id AS uuid) IS NOT NULL THEN (SELECT lines FROM batch WHERE id = :batch_id)
           ELSE (SELECT count(*) FROM account_import_process WHERE import_supplier_id = :import_supplier_id)
                + (SELECT coalesce(sum(lines), 0) FROM batch
                   WHERE import_supplier_id = :import_supplier_id AND kind <> '{BatchKind.ACCOUNTS}'
                     AND mode = '{BatchMode.IMPORT}' AND lines_removed_at IS NULL) END
""").bindparams(bindparam("batch_id", type_=Uuid))


def get_batch_to_reconcile(session: Session, batch_id: str | None, supplier: KnownSupplier) -> UUID | None:
    """Return the id of the supplier's batch, as `get_batch_with_lines` does, or None for None."""
    if batch_id is None:
        return None
    batch = get_batch(session, batch_id, organisation_id=supplier.organisation_id)
    if batch.import_supplier_id != supplier.id:
        raise BatchNotFoundError(found=batch_id)
    return get_batch_with_lines(session, batch_id, organisation_id=supplier.organisation_id).id
