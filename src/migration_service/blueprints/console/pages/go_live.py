"""Go-live, after which no account of the supplier can be undone. Typing the supplier's code confirms it.

It asks for a receipt, and what is open in that can be accepted with a reason.
"""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from flask import Blueprint, request, url_for
from sqlalchemy.orm import Session
from werkzeug.wrappers import Response
from wtforms import SelectField, StringField, ValidationError
from wtforms.fields import DateTimeLocalField
from wtforms.validators import InputRequired, Optional

from migration_service.blueprints.console import acting
from migration_service.blueprints.console.access import supplier_of
from migration_service.blueprints.console.counting import keep, look_at_verdict
from migration_service.blueprints.console.display import from_viewers_clock, viewer_zone, zoned
from migration_service.blueprints.console.languages import _, _l, ngettext
from migration_service.blueprints.requests.resources import resources
from migration_service.services.accounts.ownership import has_gone_live
from migration_service.services.reconciliation import receipts
from migration_service.services.reconciliation.comparisons import get_batch_to_reconcile
from migration_service.services.reconciliation.verdict import SENTENCES
from migration_service.services.undo import go_live
from migration_service.services.undo.open_work import find_open_work
from migration_service.states import Problem, ReadyFor

blueprint = Blueprint("go_live", __name__, url_prefix="/suppliers/<code>")


class GoLiveForm(acting.ActionForm):
    """The moment, and the code of the supplier as a confirmation."""

    at = DateTimeLocalField(_l("Goes live at"), format=["%Y-%m-%dT%H:%M"], validators=[Optional()])
    code = StringField(
        _l("The code of the supplier, to confirm"),
        validators=[InputRequired()],
        render_kw={"autocomplete": "off"},
    )

    def validate_code(self, field: StringField) -> None:
        """Require the code of this supplier."""
        if (field.data or "").strip() != (request.view_args or {})["code"]:
            raise ValidationError(_("This is not the code of the supplier."))

    def moment(self) -> datetime | None:
        """Return the moment, or None for now."""
        return from_viewers_clock(self.at.data)


class ExceptionForm(acting.ActionForm):
    """What is accepted, and why."""

    problem = SelectField(_l("What is accepted"))
    external_account_number = StringField(
        _l("Only this account"),
        description=_l("Of created accounts that differ. Empty: all of them."),
    )
    reason = acting.reason_field()


@blueprint.route("/go-live/", methods=["GET", "POST"])
def set_moment(code: str) -> Response:
    """Set when a supplier goes live, after the number of accounts whose undo then ends was shown."""
    form = GoLiveForm()
    form.at.description = _("By the clock of %(zone)s. Empty: now.", zone=viewer_zone().key)

    def preview(session: Session) -> acting.Preview:
        order = _order(session, code)
        title, back = _("Go-live of %(code)s", code=code), url_for("suppliers.show", code=code)
        if order.batch is not None:
            title = _("Go-live of a batch of %(code)s", code=code)
            back = url_for("batches.show", batch_id=order.batch.id)
        if has_gone_live(session, order.supplier.id):
            sentence = _("%(code)s has gone live. None of its accounts can be undone.", code=code)
            return acting.Preview(title=title, sentence=sentence, button="", back=back, is_empty=True)
        name = f"go-live:{order.supplier.id}:{order.batch and order.batch.id}"
        counted, counted_at = keep(session, name, _Counted, lambda own: _count(own, order))
        found = counted.preview
        return acting.Preview(
            title=title,
            sentence=ngettext(
                "%(num)s account exists. It can be undone until the go-live, and never after that.",
                "%(num)s accounts exist. They can be undone until the go-live, and never after that.",
                found.accounts,
            ),
            button=_("Go live"),
            back=back,
            is_dangerous=True,
            facts=(
                (_("Set at present"), zoned(found.before)),
                (_("E-mails to customers that will be sent"), found.emails),
                *(_describe_open(counted.open) if found.batch_id is None else ()),
                *((_("Not ready yet"), sentence) for sentence in found.not_ready),
                *acting.when_counted(counted_at),
            ),
            other=acting.Link(
                url_for("go_live.accept_exception", code=code, batch=found.batch_id), _("Accept what is open")
            )
            if found.not_ready
            else acting.Link(url_for("readiness.show", code=code, ready_for=ReadyFor.GO_LIVE), _("Ready?")),
        )

    def find_effects(session: Session) -> acting.Facts:
        order = _order(session, code, form.moment())
        return _describe(go_live.preview_go_live(session, order), is_now=form.moment() is None)

    def perform(session: Session) -> acting.Done:
        order = _order(session, code, form.moment())
        is_past = go_live.preview_go_live(session, order).is_past
        when = zoned(go_live.start_go_live(session, order).live_at)
        if order.batch is not None:
            return acting.Done(_("The accounts of the batch go live: %(when)s.", when=when))
        if is_past or form.moment() is None:
            return acting.Done(_("%(code)s went live: %(when)s.", code=code, when=when))
        return acting.Done(_("%(code)s goes live: %(when)s.", code=code, when=when))

    return acting.act(form, preview, perform, find_effects=find_effects)


def _order(session: Session, code: str, at: datetime | None = None) -> go_live.GoLiveOrder:
    """Return the order for the supplier, or for its batch or wave that the address names.

    The form shows whether the moment is in the past.
    """
    supplier, batch_id = supplier_of(session, code), request.args.get("batch")
    return go_live.GoLiveOrder(
        supplier=supplier,
        gate=go_live.Gate.of(resources().settings),
        at=at,
        may_be_past=True,
        batch=go_live.get_batch_to_go_live(session, batch_id, supplier) if batch_id else None,
    )


@dataclass(frozen=True, slots=True)
class _Counted:
    """The preview of a go-live, and for a whole supplier its open work."""

    preview: go_live.GoLivePreview
    open: dict[str, int]


def _count(session: Session, order: go_live.GoLiveOrder) -> _Counted:
    open_ = find_open_work(session, order.supplier.code) if order.batch is None else ()
    return _Counted(go_live.preview_go_live(session, order), dict(open_))


def _describe_open(found: dict[str, int]) -> acting.Facts:
    return tuple((_(what), number) for what, number in found.items()) or ((_("Still open"), _("nothing")),)


def _describe(found: go_live.GoLivePreview, *, is_now: bool) -> acting.Facts:
    ends = (_("Accounts that can then never be undone"), found.accounts)
    if is_now:
        return (_("Goes live"), _("at once")), ends
    if found.is_past:
        return (
            (_("Went live"), zoned(found.live_at)),
            (_("This is in the past"), _("It takes effect immediately.")),
            ends,
        )
    return (_("Goes live"), zoned(found.live_at)), (_("Until then"), _("another moment can be set")), ends


@blueprint.route("/receipt/accept/", methods=["GET", "POST"])
def accept_exception(code: str) -> Response:
    """Accept something that is open in the receipt of a supplier, or of the batch in the address."""
    form = ExceptionForm()
    with resources().Session.begin() as session:
        open_ = _read(session, code).open
    form.problem.choices = [(it.value, ngettext(*SENTENCES[it], number)) for it, number in open_.items()]

    def preview(session: Session) -> acting.Preview:
        receipt = _read(session, code)
        batch_id = receipt.batch_id
        is_empty = receipt.comparison_id is None or not receipt.open
        sentence = _("It is no longer in the way of go-live, until the next comparison.")
        return acting.Preview(
            title=_("Accept what is open of %(code)s", code=code),
            sentence=_("There is nothing to accept. Compare first.") if is_empty else sentence,
            button=_("Accept"),
            back=url_for("go_live.set_moment", code=code, batch=batch_id),
            is_empty=is_empty,
            facts=(
                (_("Compared"), zoned(receipt.verdict.compared_at)),
                *((_("Accepted by %(who)s", who=it.accepted_by), it.reason) for it in receipt.exceptions),
            ),
        )

    def perform(session: Session) -> acting.Done:
        receipts.accept_exception(
            session,
            supplier_of(session, code),
            _batch_id(session, code),
            Problem(form.problem.data),
            reason=str(form.reason.data),
            external_account_number=(form.external_account_number.data or "").strip() or None,
        )
        return acting.Done(_("It is accepted."))

    return acting.act(form, preview, perform)


def _batch_id(session: Session, code: str) -> UUID | None:
    return get_batch_to_reconcile(session, request.args.get("batch") or None, supplier_of(session, code))


def _read(session: Session, code: str) -> receipts.Receipt:
    supplier, batch_id = supplier_of(session, code), _batch_id(session, code)
    verdict, _counted_at = look_at_verdict(session, supplier.id, batch_id)
    return receipts.read_receipt(session, supplier, batch_id, verdict=verdict)
