"""The overview: what needs attention, what is running, and how far each supplier is."""

from collections.abc import Iterator
from dataclasses import dataclass
from uuid import UUID

from flask import Blueprint, Response, url_for
from redis import RedisError

from migration_service.blueprints.console.access import visible
from migration_service.blueprints.console.counting import count_accounts_by_state
from migration_service.blueprints.console.languages import gettext as _
from migration_service.blueprints.console.languages import ngettext
from migration_service.blueprints.console.pages.waves import find_current, is_held
from migration_service.blueprints.console.polling import BUSY, CALM, page
from migration_service.blueprints.requests.resources import resources
from migration_service.services.batches.control import BatchReport, get_batch, report_batch
from migration_service.services.batches.results.counts import count_open
from migration_service.services.batches.results.listing import list_batches
from migration_service.services.batches.states import ERROR_THRESHOLD_REACHED
from migration_service.services.processing.slots import Slots
from migration_service.services.reporting.counts import read_in_progress
from migration_service.services.setup.suppliers import list_import_suppliers
from migration_service.services.waves.reading import list_plans
from migration_service.services.waves.reports import PlanReport, report_plans
from migration_service.states import BatchCondition, BatchState, SupplierStatus, WaveState, WaveWait

blueprint = Blueprint("overview", __name__)

_OVER = (BatchState.COMPLETED, BatchState.CANCELLED)
NEWEST = 30
#: Seconds without a sweep after which beat or a worker counts as missing.
_NO_SWEEP = 30.0


@dataclass(frozen=True, slots=True)
class Concern:
    """Something that needs a person, and the page to go to."""

    sentence: str
    location: str
    is_urgent: bool = False


@blueprint.get("/")
def show() -> Response:
    """Show what needs attention, what is running, and how far each supplier is."""
    with resources().Session.begin() as session:
        owned = visible(list_import_suppliers(session))
        suppliers = [supplier for supplier, _owner in owned]
        states = count_accounts_by_state(session, [(it.id, it.code) for it in suppliers])
        newest = list_batches(session, organisation_id=None, limit=NEWEST)
        # However old it is: a batch that was paused weeks ago still needs attention.
        running = [
            report_batch(session, get_batch(session, str(it.batch_id), organisation_id=None))
            for it in list_batches(session, organisation_id=None, only_open=True, limit=NEWEST)
        ]
        limit = read_in_progress(session).limit
        plans = report_plans(session, list_plans(session, organisation_id=None, only_open=True))
    paused = [it.code for it in suppliers if it.status == SupplierStatus.PAUSED]
    concerns = [
        *_about_parts(limit),
        *_about_waves(plans),
        *_about_batches(running, {wave.batch_id for plan in plans for wave in plan.waves}),
        *_about_suppliers(paused),
    ]
    return page(
        "overview.html",
        poll=BUSY if any(it.state == BatchState.RUNNING for it in running) else CALM,
        owned=owned,
        states=states,
        running=running,
        ended=[it for it in newest if it.state in _OVER][:5],
        concerns=concerns,
    )


def _about_parts(limit: int | None) -> Iterator[Concern]:
    try:
        slots = Slots(resources().redis)
        in_use, age = slots.in_use(), slots.seconds_since_reconcile()
    except RedisError:
        yield Concern(_("Redis does not answer: nothing is processed."), url_for("work.show"), True)
        return
    if age is None or age > _NO_SWEEP:
        sentence = _("No sweep has run for a while: beat or the maintenance worker is missing.")
        yield Concern(sentence, url_for("work.show"), True)
    if limit is not None and in_use >= limit:
        sentence = _("All %(limit)s slots are in use: further requests get a 429.", limit=limit)
        yield Concern(sentence, url_for("work.show"))


def _about_batches(running: list[BatchReport], of_waves: set[UUID]) -> Iterator[Concern]:
    for batch in running:
        name = batch.name or batch.file_name or str(batch.batch_id)[-12:]
        location = url_for("batches.show", batch_id=batch.batch_id)
        if batch.condition is BatchCondition.DEFERRED:
            if batch.waits_for_vendors:
                vendors = ", ".join(batch.waits_for_vendors)
                sentence = _("Batch %(name)s waits for vendor %(vendors)s.", name=name, vendors=vendors)
                yield Concern(sentence, location)
        elif batch.condition is not None:
            sentence = _("Batch %(name)s makes no progress: %(why)s.", name=name, why=batch.condition)
            if batch.condition is BatchCondition.STARVING:
                sentence = _("Batch %(name)s is slow: the machine is busy with other work.", name=name)
            yield Concern(sentence, location, True)
        elif batch.state in (BatchState.PAUSED, BatchState.STOPPED) and batch.batch_id not in of_waves:
            left = count_open(batch.counts)
            if batch.reason == ERROR_THRESHOLD_REACHED:
                sentence = ngettext(
                    "Batch %(name)s was paused for too many errors, with %(num)s line left.",
                    "Batch %(name)s was paused for too many errors, with %(num)s lines left.",
                    left,
                    name=name,
                )
            else:
                sentence = ngettext(
                    "Batch %(name)s is %(state)s, with %(num)s line left.",
                    "Batch %(name)s is %(state)s, with %(num)s lines left.",
                    left,
                    name=name,
                    state=batch.state,
                )
            yield Concern(sentence, location)


def _about_waves(plans: list[PlanReport]) -> Iterator[Concern]:
    for plan in plans:
        wave = find_current(plan)
        if wave is None:
            continue
        values = {"number": wave.number, "code": plan.import_supplier}
        if wave.state == WaveState.DIFFERS:
            sentence = _(
                "Wave %(number)s of %(code)s has accounts that differ or are open, and waits for your "
                "decision.",
                **values,
            )
        elif wave.state == WaveState.CLEAN:
            sentence = _("Wave %(number)s of %(code)s is reconciled, and waits for your decision.", **values)
        elif wave.waits_for == WaveWait.PERSON:
            sentence = _("Wave %(number)s of %(code)s waits for somebody to start it.", **values)
        elif is_held(wave) and wave.reason == ERROR_THRESHOLD_REACHED:
            sentence = ngettext(
                "Wave %(number)s of %(code)s was paused for too many errors, with %(num)s account left.",
                "Wave %(number)s of %(code)s was paused for too many errors, with %(num)s accounts left.",
                count_open(wave.counts),
                **values,
            )
        elif is_held(wave):
            sentence = ngettext(
                "Wave %(number)s of %(code)s is paused until it is resumed, with %(num)s account left.",
                "Wave %(number)s of %(code)s is paused until it is resumed, with %(num)s accounts left.",
                count_open(wave.counts),
                **values,
            )
        else:
            continue
        yield Concern(sentence, url_for("waves.show", plan_id=plan.plan_id, number=wave.number))


def _about_suppliers(paused: list[str]) -> Iterator[Concern]:
    for code in paused:
        sentence = _(
            "Supplier %(code)s is paused: its requests are refused, and its batches wait.", code=code
        )
        yield Concern(sentence, url_for("suppliers.show", code=code))
