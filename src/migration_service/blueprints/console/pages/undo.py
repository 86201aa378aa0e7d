"""Undo of imports before go-live, and replacement: each with its preview, and the outcome of an undo."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any
from uuid import UUID

from flask import Blueprint, Response, request, url_for
from sqlalchemy.orm import Session
from werkzeug.wrappers import Response as AnyResponse
from wtforms import SelectMultipleField

from migration_service.blueprints.batch_upload import intake_limits
from migration_service.blueprints.console import acting
from migration_service.blueprints.console.access import batch_of, current_operator, supplier_of, visible_row
from migration_service.blueprints.console.counting import keep
from migration_service.blueprints.console.display import name_batch
from migration_service.blueprints.console.languages import _, _l, mark, mark_plural, ngettext
from migration_service.blueprints.console.lists import list_at, show_list
from migration_service.blueprints.console.pages.downloads import send_file
from migration_service.blueprints.console.polling import BUSY, CALM, page
from migration_service.blueprints.requests.resources import resources
from migration_service.errors import UndoNotFoundError
from migration_service.formats import ResultFormat
from migration_service.models import Undo
from migration_service.services.access.operators import OperatorRole
from migration_service.services.accounts.ownership import has_gone_live
from migration_service.services.setup.suppliers import get_import_supplier_by_id
from migration_service.services.undo import reading
from migration_service.services.undo.orders import UndoOrder, get_batch_to_undo
from migration_service.services.undo.preview import preview_undo
from migration_service.services.undo.replacements import preview_replacement, start_replacement
from migration_service.services.undo.starting import cancel_undo, start_undo
from migration_service.states import BatchKind, UndoBlocker, UndoState
from migration_service.tasks.jobs import UNDOS

blueprint = Blueprint("undo", __name__)

_COLUMNS = "undo_id import_supplier batch_id state reason started_by created_at finished_at accounts"


class UndoForm(acting.ActionForm):
    """The reason of the undo, and the blockers to override."""

    reason = acting.reason_field(longest=500)
    overrides = SelectMultipleField(
        _l("Undo although this blocks it"),
        choices=[blocker.value for blocker in UndoBlocker if blocker.may_be_overridden],
    )


@blueprint.route("/batches/<uuid:batch_id>/undo/", methods=["GET", "POST"])
def undo_batch(batch_id: UUID) -> AnyResponse:
    """Undo the import of every account that a batch created."""

    def find(session: Session, reason: str = "", **others: Any) -> UndoOrder:
        batch = batch_of(session, batch_id)
        supplier = get_import_supplier_by_id(session, batch.import_supplier_id)
        found = get_batch_to_undo(session, str(batch_id), supplier)
        return UndoOrder(supplier=supplier, batch=found, reason=reason, **others)

    with resources().Session.begin() as session:
        batch = batch_of(session, batch_id)
        name = name_batch(batch)
        is_added = BatchKind(batch.kind).is_added_data
    back = url_for("batches.show", batch_id=batch_id)
    title = _("Undo the imports of batch %(name)s", name=name)
    return _undo(find, _("Take back what batch %(name)s has added", name=name) if is_added else title, back)


@blueprint.route("/suppliers/<code>/accounts/<number:number>/undo/", methods=["GET", "POST"])
def undo_account(code: str, number: str) -> AnyResponse:
    """Undo the import of one account."""

    def find(session: Session, reason: str = "", **others: Any) -> UndoOrder:
        supplier = supplier_of(session, code)
        return UndoOrder(supplier=supplier, external_account_numbers=[number], reason=reason, **others)

    back = url_for("accounts.show", code=code, number=number)
    return _undo(find, _("Undo the import of account %(number)s", number=number), back)


@blueprint.route("/batches/<uuid:batch_id>/replace/", methods=["GET", "POST"])
def replace_batch(batch_id: UUID) -> AnyResponse:
    """Replace the accounts of a batch that differ from the newest version that was sent."""
    form = acting.ReasonForm()

    def find(session: Session, reason: str = "") -> UndoOrder:
        supplier = get_import_supplier_by_id(session, batch_of(session, batch_id).import_supplier_id)
        found = get_batch_to_undo(session, str(batch_id), supplier)
        return UndoOrder(supplier=supplier, batch=found, reason=reason)

    def preview(session: Session) -> acting.Preview:
        name = f"replace:{batch_id}"
        found, counted_at = keep(
            session, name, dict[str, Any], lambda own: preview_replacement(own, find(own))
        )
        facts = [(_("Accounts that exist as they were sent last"), found["unchanged"])]
        facts += [(f"{it['code']}: {', '.join(it['examples'])}", it["accounts"]) for it in found["blockers"]]
        replaced = ngettext(
            "%(num)s account is created again from its newest version, under the same number.",
            "%(num)s accounts are created again from their newest version, under the same number.",
            found["replaced"],
        )
        created = ngettext(
            "%(num)s account that was undone is created.",
            "%(num)s accounts that were undone are created.",
            found["created"],
        )
        is_empty = not found["replaced"] + found["created"]
        return acting.Preview(
            title=_("Replace the accounts that differ"),
            sentence=_("Nothing differs from what was sent last.")
            if is_empty
            else f"{replaced} {created}"
            if found["created"]
            else replaced,
            button=_("Replace the accounts"),
            back=url_for("batches.show", batch_id=batch_id),
            is_empty=is_empty,
            facts=(*facts, *acting.when_counted(counted_at)),
        )

    def perform(session: Session) -> acting.Done:
        quotas = intake_limits(resources().settings).quotas
        started = start_replacement(session, find(session, str(form.reason.data)), quotas)
        return acting.Done(_("The replacement has started."), url_for("batches.show", batch_id=started))

    return acting.act(form, preview, perform, afterwards=[acting.feed_workers])


def _undo(find: Callable[..., UndoOrder], title: str, back: str) -> AnyResponse:
    form = UndoForm()
    role = current_operator().role
    if not role.includes(OperatorRole.ADMINISTER):
        del form.overrides

    def preview(session: Session) -> acting.Preview:
        order = find(session)
        if has_gone_live(session, order.supplier.id):
            code = order.supplier.code
            sentence = _("%(code)s has gone live. None of its accounts can be undone.", code=code)
            return acting.Preview(title=title, sentence=sentence, button="", back=back, is_empty=True)
        if order.batch is None:
            return _describe(preview_undo(session, order), title, back)
        name = f"undo:{order.batch.id}"
        found, counted_at = keep(session, name, dict[str, Any], lambda own: preview_undo(own, find(own)))
        shown = _describe(found, title, back, is_added=order.adds_data)
        return replace(shown, facts=(*shown.facts, *acting.when_counted(counted_at)))

    def perform(session: Session) -> acting.Done:
        chosen = form.overrides.data or () if form.overrides is not None else ()
        order = find(session, reason=str(form.reason.data), overrides=frozenset(map(UndoBlocker, chosen)))
        undo_id = start_undo(session, order, role=role)
        return acting.Done(_("The undo has started."), url_for("undo.show", undo_id=undo_id))

    return acting.act(form, preview, perform, afterwards=[acting.dispatch_jobs(UNDOS)])


def _describe(found: dict[str, Any], title: str, back: str, *, is_added: bool = False) -> acting.Preview:
    blocked = found["accounts"] - found["revertible"]
    facts = [(_("Accounts that are blocked, and kept"), blocked)]
    facts += [(f"{it['code']}: {', '.join(it['examples'])}", it["accounts"]) for it in found["blockers"]]
    if found["emails"]:
        facts.append((_("Unsent e-mails, which are withdrawn"), found["emails"]))
    is_empty = not found["revertible_with_overrides"]
    nothing = _("Nothing can be undone: no account of it exists that is not blocked.")
    effect = ngettext(
        "%(num)s account is removed with all its data, and its import is pending again.",
        "%(num)s accounts are removed with all their data, and their imports are pending again.",
        found["revertible"],
    )
    if is_added:
        effect = ngettext(
            "What the batch has added is removed from %(num)s account, whose balances are then as before.",
            "What the batch has added is removed from %(num)s accounts, whose balances are then as before.",
            found["revertible"],
        )
    return acting.Preview(
        title=title,
        sentence=nothing if is_empty else effect,
        button=_("Take it back")
        if is_added
        else ngettext("Undo %(num)s import", "Undo %(num)s imports", found["revertible"]),
        back=back,
        is_dangerous=True,
        is_empty=is_empty,
        facts=tuple(facts),
    )


@blueprint.get("/undos/<uuid:undo_id>/")
def show(undo_id: UUID) -> Response:
    """Show the progress of an undo."""
    with resources().Session.begin() as session:
        report = reading.report_undo(session, _get(session, undo_id))
    return page("undo.html", poll=BUSY if report["state"] == UndoState.RUNNING else None, undo=report)


@list_at(blueprint, "/undos/")
def show_all() -> Response:
    """List undos, newest first."""
    code = request.args.get("supplier") or None

    def more(_session: Session, found: list[dict[str, Any]]) -> dict[str, Any]:
        running = sum(it["state"] == UndoState.RUNNING for it in found)
        return {"supplier": code, "running": running, "poll": CALM if running else None}

    find = partial(reading.list_undos, organisation_id=None, import_supplier=code)
    return show_list("undos.html", find, _COLUMNS, more, key="undo_id", read_key=UUID)


@blueprint.get("/undos/<uuid:undo_id>/outcomes.csv")
def outcomes(undo_id: UUID) -> Response:
    """Send the outcome of each account."""
    with resources().Session.begin() as session:
        _get(session, undo_id)
    pieces = reading.stream_outcomes(resources().Session, undo_id, ResultFormat.CSV)
    return send_file(pieces, f"undo-{undo_id}.csv")


def _get(session: Session, undo_id: UUID) -> Undo:
    return visible_row(session, Undo, undo_id, UndoNotFoundError)


_CANCEL = acting.Act[dict[str, Any]](
    name="cancel",
    title=mark("Cancel the undo for %(code)s"),
    sentence=mark_plural(
        "%(num)s remaining account is kept. This is permanent.",
        "%(num)s remaining accounts are kept. This is permanent.",
    ),
    number=lambda undo: undo["counts"]["PENDING"],
    button=mark("Cancel the undo permanently"),
    done=mark("The undo is cancelled."),
    do=lambda session, undo_id: cancel_undo(session, _get(session, undo_id)),
    is_dangerous=True,
)
acting.add_acts(
    blueprint,
    "/undos/<uuid:undo_id>/",
    [_CANCEL],
    show=lambda session, undo_id: reading.report_undo(session, _get(session, undo_id)),
    back=lambda undo_id: url_for("undo.show", undo_id=undo_id),
    values=lambda undo: {"code": undo["import_supplier"]},
)
