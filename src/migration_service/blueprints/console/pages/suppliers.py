"""The page of an import supplier: the progress of its book, and the reconciliation."""

from dataclasses import dataclass
from datetime import datetime
from itertools import chain, islice
from typing import Any, cast
from zoneinfo import ZoneInfo

from flask import Blueprint, Response, render_template, request
from sqlalchemy import select, text
from sqlalchemy.orm import Session

from migration_service.blueprints.console.access import supplier_of
from migration_service.blueprints.console.charts import draw_codes
from migration_service.blueprints.console.counting import (
    count_accounts_by_state,
    keep,
    look_at_verdict,
)
from migration_service.blueprints.console.display import name_batch
from migration_service.blueprints.console.filters import read_yes_no
from migration_service.blueprints.console.languages import _
from migration_service.blueprints.console.lists import PAGE, list_at, show_list, write_rows
from migration_service.blueprints.console.masking import mask_differences
from migration_service.blueprints.console.pages.downloads import send_file
from migration_service.blueprints.console.pages.waves import find_current
from migration_service.blueprints.console.polling import BUSY, CALM, page
from migration_service.blueprints.console.programme import Progress, list_steps
from migration_service.blueprints.console.remedies import remedy_of
from migration_service.blueprints.console.states import name_state
from migration_service.blueprints.requests.paging import SHOWN
from migration_service.blueprints.requests.resources import resources
from migration_service.models import Batch, ImportSupplier, WavePlan
from migration_service.services.access.api_keys import list_api_keys
from migration_service.services.accounts.ownership import has_gone_live
from migration_service.services.batches.results.listing import list_batches, list_newest
from migration_service.services.reconciliation import comparisons
from migration_service.services.reconciliation.book_totals import add_files
from migration_service.services.reconciliation.created_accounts import stream_id_map
from migration_service.services.reconciliation.differences import NOT_COMPARED
from migration_service.services.reconciliation.submitted import OpenItem, find_open, read_place
from migration_service.services.reconciliation.verdict import SENTENCES, describe_progress
from migration_service.services.reporting.counts import (
    CreatedOnDay,
    count_created_by_day,
    count_failures_by_code,
)
from migration_service.services.reporting.report import read_trend
from migration_service.services.setup.suppliers import list_owned
from migration_service.services.waves.reports import PlanReport, WaveReport, report_plan
from migration_service.states import BatchKind, BatchMode, BatchState, LineStatus, OpenReason, SupplierStatus
from migration_service.tasks.jobs import COMPARISONS, dispatch

blueprint = Blueprint("suppliers", __name__, url_prefix="/suppliers")

#: The most values of each account that a page lists. The page of the account has all of them.
_SHOWN_VALUES = 5
#: The days of the chart of what was created.
_DAYS = 30
#: A book with more accounts is compared only on request.
LARGE = 5_000
#: Seconds for which the page compares itself, before workers go on.
_SECONDS = 5.0
_FURTHER = text("SELECT 1 FROM account_import_process WHERE import_supplier_id = :id OFFSET :few LIMIT 1")


@dataclass(frozen=True, slots=True)
class _Book:
    """What is counted for the page of a supplier."""

    codes: list[tuple[str, int]]
    created: list[CreatedOnDay]


@blueprint.get("/<code>/")
def show(code: str) -> Response:
    """Show how far the book of a supplier is."""
    with resources().Session.begin() as session:
        supplier = supplier_of(session, code)
        row = session.get_one(ImportSupplier, supplier.id)
        live_at, live_by = row.live_at, row.live_by
        counts, _counted_at = count_accounts_by_state(session, [(supplier.id, code)])
        batches = list_batches(session, organisation_id=None, import_supplier=code, limit=20)
        owner = supplier.organisation_id
        keys = [key for key, _owner in list_api_keys(session) if key.organisation_id == owner]
        plans = list_owned(session, WavePlan, organisation_id=None, import_supplier=code, limit=1)
        plan = report_plan(session, plans[0]) if plans else None
        newest = list_newest(session, supplier.id)
        rehearsals = [it for it in read_trend(session, supplier.id) if it.done]
        book, counted_at = keep(session, f"book:{supplier.id}", _Book, lambda own: _count(own, supplier.id))
        verdict, _counted_at = look_at_verdict(session, supplier.id)
        is_live = has_gone_live(session, supplier.id)
    current = find_current(plan) if plan else None
    progress = Progress(
        code=code,
        newest=newest,
        failed_in_rehearsal=next(
            (
                it.counts[LineStatus.FAILED]
                for it in batches
                if it.mode == BatchMode.DRY_RUN and it.kind == BatchKind.ACCOUNTS
            ),
            None,
        ),
        counts=counts[code],
        plan=plan,
        verdict=verdict,
        live_at=live_at,
        live_by=live_by,
        is_live=is_live,
        is_closed=supplier.status == SupplierStatus.COMPLETE,
    )
    return page(
        "supplier.html",
        poll=BUSY if any(it.state == BatchState.RUNNING for it in batches) else CALM,
        supplier=supplier,
        live_at=live_at,
        is_live=is_live,
        batches=batches,
        keys=[key for key in keys if key.revoked_at is None],
        codes=book.codes,
        remedy_of=remedy_of,
        created=book.created,
        counted_at=counted_at,
        plan=plan,
        current=current,
        reconciled=_find_last_reconciled(plan),
        verdict=verdict,
        sentences=SENTENCES,
        steps=list_steps(progress),
        rehearsals=rehearsals,
        trend_of_codes=draw_codes(rehearsals),
        sent=verdict.sent,
    )


def _count(session: Session, import_supplier_id: int) -> _Book:
    codes = count_failures_by_code(session, import_supplier_id)
    zone = ZoneInfo(resources().settings.console_time_zone)
    return _Book(codes, count_created_by_day(session, import_supplier_id, days=_DAYS, zone=zone))


def _find_last_reconciled(plan: PlanReport | None) -> WaveReport | None:
    # A wave that was undone since then is reconciled again, so its result is unknown.
    waves = [it for it in plan.waves if it.differing is not None] if plan else []
    return max(waves, key=lambda it: cast(datetime, it.reconciled_at), default=None)


@blueprint.get("/<code>/sign-off/")
def sign_off(code: str) -> str:
    """Show whether the whole book of a supplier is migrated, and where each total of its files is."""
    with resources().Session.begin() as session:
        supplier = supplier_of(session, code)
        verdict, counted_at = look_at_verdict(session, supplier.id)
        book = add_files(session, supplier.id, verdict.book) if verdict.book else None
        is_live = has_gone_live(session, supplier.id)
    return render_template(
        "sign_off.html",
        supplier=supplier,
        verdict=verdict,
        counted_at=counted_at,
        sentences=SENTENCES,
        book=book,
        is_live=is_live,
    )


@blueprint.get("/<code>/reconciliation/")
def reconcile(code: str) -> str:
    """Show the kept comparison of what the supplier sent with what was created, or make another."""
    sessions = resources().Session
    with sessions.begin() as session:
        supplier = supplier_of(session, code)
        wanted = comparisons.get_batch_to_reconcile(session, request.args.get("batch") or None, supplier)
        running = comparisons.find_kept(session, supplier.id, wanted, ended=False)
        is_small = session.scalar(_FURTHER, {"id": supplier.id, "few": LARGE}) is None
        if running is None and (is_small or "compare" in request.args):
            is_full = request.args.get("compare") == "full"
            running, _is_new = comparisons.start_comparison(session, supplier, wanted, is_full=is_full)
        running_id = running.id if running else None
    if running_id is not None and is_small:
        comparisons.wait_for_comparison(sessions, running_id, seconds=_SECONDS)
    elif running_id is not None:
        dispatch(resources().celery, sessions, COMPARISONS)
    with sessions.begin() as session:
        verdict, counted_at = look_at_verdict(session, supplier.id, wanted)
        kept = comparisons.find_kept(session, supplier.id, wanted)
        differing = comparisons.list_differing(session, kept, limit=SHOWN) if kept else []
        progress = describe_progress(session, running_id) if running_id else None
    return render_template(
        "reconciliation.html",
        supplier=supplier,
        batch_id=wanted,
        verdict=verdict,
        sentences=SENTENCES,
        sent=verdict.sent,
        counted_at=counted_at,
        differing=[mask_differences(it) for it in differing],
        most_values=_SHOWN_VALUES,
        not_compared=[_(it) for it in NOT_COMPARED],
        totals=verdict.totals,
        progress=progress and progress["comparison"],
        book=verdict.book,
    )


@blueprint.get("/<code>/reconciliation/differences.csv")
def download_differences(code: str) -> Response:
    """Send every value and sum that differs, with personal values masked."""
    sessions = resources().Session
    with sessions.begin() as session:
        supplier = supplier_of(session, code)
        batch = comparisons.get_batch_to_reconcile(session, request.args.get("batch") or None, supplier)
        kept = comparisons.find_kept(session, supplier.id, batch)
    rows = chain(
        [["external_account_number", "what", "staged", "created"]],
        (
            [it.external_account_number, getattr(differs, name), differs.staged, differs.created]
            for it in map(mask_differences, comparisons.stream_differing(sessions, kept) if kept else ())
            for name, differing in (("path", it.values), ("measure", it.differences))
            for differs in differing
        ),
    )
    pieces = (write_rows(it) for it in iter(lambda: [*islice(rows, PAGE)], []))
    return send_file(pieces, f"differences-{code}.csv")


@list_at(blueprint, "/<code>/open/")
def show_open(code: str) -> Response:
    """List what is open, of the supplier or of a batch, or some of it."""
    sessions = resources().Session
    with sessions.begin() as session:
        supplier = supplier_of(session, code)
        batch = comparisons.get_batch_to_reconcile(session, request.args.get("batch") or None, supplier)
    reason, error = request.args.get("reason", type=OpenReason), request.args.get("error") or None

    def find(_session: Session, *, before: OpenItem | None, limit: int) -> list[OpenItem]:
        wanted: dict[str, Any] = {"batch_id": batch, "reason": reason, "code": error}
        wanted["is_created"] = read_yes_no("created")
        return [*islice(find_open(sessions, supplier.id, after=before, size=limit, **wanted), limit)]

    def more(session: Session, _found: object) -> dict[str, Any]:
        chosen = Batch.id == batch
        sent = Batch.mode.in_((BatchMode.STAGE, BatchMode.IMPORT)) & Batch.lines_removed_at.is_(None)
        of_supplier = select(Batch).where(Batch.import_supplier_id == supplier.id, sent | chosen)
        batches = session.scalars(of_supplier.order_by(chosen.desc(), Batch.id.desc()).limit(SHOWN))
        return {
            "supplier": supplier,
            "batches": [(str(it.id), name_batch(it)) for it in batches],
            "reasons": [(it.value, f"{it} {name_state(it)}".strip()) for it in OpenReason],
        }

    columns = "external_account_number reason batch_id line_number codes"
    return show_list("open.html", find, columns, more, key="key", read_key=read_place, kept=OpenItem)


@blueprint.get("/<code>/id-map.csv")
def download_id_map(code: str) -> Response:
    """Send the external and the new number of every created account."""
    with resources().Session.begin() as session:
        supplier = supplier_of(session, code)
    pieces = stream_id_map(resources().Session, supplier.id)
    return send_file(pieces, f"id-map-{code}.csv")
