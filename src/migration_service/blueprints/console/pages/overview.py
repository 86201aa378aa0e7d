"""The overview: what needs attention, what is running, and how far each supplier is."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from flask import Blueprint, Response, request, url_for
from redis import RedisError

from migration_service.blueprints.console.access import visible
from migration_service.blueprints.console.counting import count_accounts_by_state
from migration_service.blueprints.console.display import name_batch
from migration_service.blueprints.console.languages import _, _l, mark_plural, ngettext
from migration_service.blueprints.console.lists import list_at, show_list
from migration_service.blueprints.console.pages.waves import find_current, is_held, list_openings
from migration_service.blueprints.console.polling import BUSY, CALM
from migration_service.blueprints.requests.resources import resources
from migration_service.models import ImportSupplier, WavePlan
from migration_service.schemas.paging import row_id
from migration_service.services.batches.control import BatchReport, get_batch, report_batch
from migration_service.services.batches.results.counts import count_open
from migration_service.services.batches.results.listing import list_batches
from migration_service.services.batches.states import ERROR_THRESHOLD_REACHED
from migration_service.services.processing.slots import Slots
from migration_service.services.reporting.counts import read_in_progress
from migration_service.services.setup.suppliers import list_import_suppliers, list_owned
from migration_service.services.waves.reports import PlanReport, report_plans
from migration_service.states import (
    BatchCondition,
    BatchState,
    ImportState,
    SupplierStatus,
    WaveState,
    WaveWait,
)

blueprint = Blueprint("overview", __name__)

_OVER = (BatchState.COMPLETED, BatchState.CANCELLED)
NEWEST = 30
#: Seconds without a sweep after which beat or a worker counts as missing.
_NO_SWEEP = 30.0


@dataclass(frozen=True, slots=True)
class Concern:
    """Something that needs a person: what it is, the page to go to, and what to do there."""

    group: str
    sentence: str
    location: str
    advice: str
    is_urgent: bool = False
    #: The code of the supplier, if it is about one.
    code: str | None = None


@dataclass(frozen=True, slots=True)
class SupplierRow:
    """A supplier, and how many of its accounts have each state."""

    place: int
    supplier: ImportSupplier
    owner: str
    counts: dict[str, int]
    #: Whether something about it needs a person.
    needs_somebody: bool

    @property
    def left(self) -> int:
        """Return the number of accounts that are staged and not created."""
        return self.counts[ImportState.PENDING] + self.counts[ImportState.IN_PROGRESS]


#: The orders of the suppliers, by their names in the address. The first one is the usual one.
_ORDERS: dict[str, Callable[[SupplierRow], Any]] = {
    "open": lambda it: (not (it.needs_somebody or it.left), it.owner.casefold(), it.supplier.code.casefold()),
    "supplier": lambda it: it.supplier.code.casefold(),
    "organisation": lambda it: (it.owner.casefold(), it.supplier.code.casefold()),
    "created": lambda it: -it.counts[ImportState.IMPORTED],
    "left": lambda it: -it.left,
}


_COLUMNS = (
    "import_supplier=supplier.code organisation=owner supplier.status counts.IMPORTED left counts.SKIPPED"
)


@list_at(blueprint, "/")
def show() -> Response:
    """Show what needs attention, what is running, and how far each supplier is."""
    wanted = request.args.get("supplier", "").strip().casefold()
    order = request.args.get("order") if request.args.get("order") in _ORDERS else "open"
    with resources().Session.begin() as session:
        owned = visible(list_import_suppliers(session))
        suppliers = [supplier for supplier, _owner in owned]
        codes = [(it.id, it.code) for it in suppliers]
        counts, counted_at = count_accounts_by_state(session, codes)
        newest = list_batches(session, organisation_id=None, limit=NEWEST)
        # However old it is: a batch that was paused weeks ago still needs attention.
        running = [
            report_batch(session, get_batch(session, str(it.batch_id), organisation_id=None))
            for it in list_batches(session, organisation_id=None, only_open=True, limit=NEWEST)
        ]
        limit = read_in_progress(session).limit
        plans = report_plans(session, list_owned(session, WavePlan, organisation_id=None, only_open=True))
    concerns = [
        *_about_parts(limit),
        *_about_waves(plans),
        *_about_batches(running, {wave.batch_id for plan in plans for wave in plan.waves}),
        *_about_suppliers([it.code for it in suppliers if it.status == SupplierStatus.PAUSED]),
    ]
    concerned = {it.code for it in concerns}
    found = [
        SupplierRow(0, supplier, owner, counts[supplier.code], supplier.code in concerned)
        for supplier, owner in owned
        if wanted in f"{supplier.code} {owner}".casefold()
    ]
    rows = [replace(it, place=n) for n, it in enumerate(sorted(found, key=_ORDERS[order or "open"]), 1)]
    tomorrow = datetime.now(UTC) + timedelta(days=1)
    return show_list(
        "overview.html",
        lambda _session, before, limit: rows[before or 0 :][:limit],
        _COLUMNS,
        lambda _session, _found: {
            "poll": BUSY if any(it.state == BatchState.RUNNING for it in running) else CALM,
            "order": order,
            "suppliers": len(owned),
            "counted_at": counted_at,
            "running": running,
            "openings": [it for it in list_openings(plans) if it[0] < tomorrow],
            "ended": [it for it in newest if it.state in _OVER][:5],
            "concerns": concerns,
        },
        key="place",
        read_key=row_id,
    )


def _about_parts(limit: int | None) -> Iterator[Concern]:
    group, work = _("The service"), url_for("work.show")
    try:
        slots = Slots(resources().redis)
        in_use, age = slots.in_use(), slots.seconds_since_reconcile()
    except RedisError:
        sentence = _("Redis does not answer: nothing is processed.")
        yield Concern(group, sentence, work, _("Start it again."), is_urgent=True)
        return
    if age is None or age > _NO_SWEEP:
        sentence = _("No sweep has run for a while: beat or the maintenance worker is missing.")
        yield Concern(group, sentence, work, _("Start the one that is missing."), is_urgent=True)
    if limit is not None and in_use >= limit:
        sentence = _("All %(limit)s slots are in use: further requests get a 429.", limit=limit)
        yield Concern(group, sentence, work, _("Wait, or set a higher limit."))


#: What to do about what was paused, by whether it had too many errors.
_PAUSED = {
    True: _l("See which errors these are, and then resume or stop it."),
    False: _l("Resume it, or stop it."),
}


def _about_batches(running: list[BatchReport], of_waves: set[UUID]) -> Iterator[Concern]:
    for batch in running:
        values: dict[str, Any] = {"name": name_batch(batch), "state": batch.state}
        is_urgent = batch.condition not in (None, BatchCondition.DEFERRED)
        if batch.condition is BatchCondition.DEFERRED:
            if not batch.waits_for_vendors:
                continue
            vendors = ", ".join(batch.waits_for_vendors)
            sentence = _("Batch %(name)s waits for vendor %(vendors)s.", vendors=vendors, **values)
            advice = _("It continues by itself when the vendor answers.")
        elif batch.condition is BatchCondition.STARVING:
            sentence = _("Batch %(name)s is slow: the machine is busy with other work.", **values)
            advice = _("Wait, or give its workers more processors.")
        elif batch.condition is not None:
            sentence = _("Batch %(name)s makes no progress: %(why)s.", why=batch.condition, **values)
            advice = _("See whether a worker takes its queue.")
        elif batch.state in (BatchState.PAUSED, BatchState.STOPPED) and batch.batch_id not in of_waves:
            has_errors = batch.reason == ERROR_THRESHOLD_REACHED
            texts = mark_plural(
                "Batch %(name)s is %(state)s, with %(num)s line left.",
                "Batch %(name)s is %(state)s, with %(num)s lines left.",
            )
            if has_errors:
                texts = mark_plural(
                    "Batch %(name)s was paused for too many errors, with %(num)s line left.",
                    "Batch %(name)s was paused for too many errors, with %(num)s lines left.",
                )
            sentence, advice = ngettext(*texts, count_open(batch.counts), **values), str(_PAUSED[has_errors])
        else:
            continue
        location = url_for("batches.show", batch_id=batch.batch_id)
        yield Concern(_("Batches"), sentence, location, advice, is_urgent, batch.import_supplier)


def _about_waves(plans: list[PlanReport]) -> Iterator[Concern]:
    for plan in plans:
        wave = find_current(plan)
        if wave is None:
            continue
        values: dict[str, Any] = {"number": wave.number, "code": plan.import_supplier}
        if wave.state == WaveState.DIFFERS:
            sentence = _(
                "Wave %(number)s of %(code)s has accounts that differ or are open, and waits for your "
                "decision.",
                **values,
            )
            advice = _("See what differs, and then approve, undo or stop it.")
        elif wave.state == WaveState.CLEAN:
            sentence = _("Wave %(number)s of %(code)s is reconciled, and waits for your decision.", **values)
            advice = _("Approve it, so that the next one can start.")
        elif wave.waits_for == WaveWait.PERSON:
            sentence = _("Wave %(number)s of %(code)s waits for somebody to start it.", **values)
            advice = _("Start it.")
        elif is_held(wave):
            has_errors = wave.reason == ERROR_THRESHOLD_REACHED
            texts = mark_plural(
                "Wave %(number)s of %(code)s is paused until it is resumed, with %(num)s account left.",
                "Wave %(number)s of %(code)s is paused until it is resumed, with %(num)s accounts left.",
            )
            if has_errors:
                texts = mark_plural(
                    "Wave %(number)s of %(code)s was paused for too many errors, with %(num)s account left.",
                    "Wave %(number)s of %(code)s was paused for too many errors, with %(num)s accounts left.",
                )
            sentence, advice = ngettext(*texts, count_open(wave.counts), **values), str(_PAUSED[has_errors])
        else:
            continue
        location = url_for("waves.show", plan_id=plan.plan_id, number=wave.number)
        yield Concern(_("Waves"), sentence, location, advice, code=plan.import_supplier)


def _about_suppliers(paused: list[str]) -> Iterator[Concern]:
    for code in paused:
        sentence = _(
            "Supplier %(code)s is paused: its requests are refused, and its batches wait.", code=code
        )
        location, advice = url_for("suppliers.show", code=code), _("Set its status to Ongoing to continue.")
        yield Concern(_("Suppliers"), sentence, location, advice, code=code)
