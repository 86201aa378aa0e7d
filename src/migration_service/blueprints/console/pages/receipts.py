"""Accepting what is open in the receipt that go-live asks for, with a reason."""

from uuid import UUID

from flask import Blueprint, request, url_for
from sqlalchemy.orm import Session
from werkzeug.wrappers import Response
from wtforms import SelectField, StringField

from migration_service.blueprints.console.access import supplier_of
from migration_service.blueprints.console.acting import ActionForm, Done, Preview, act, reason_field
from migration_service.blueprints.console.display import zoned
from migration_service.blueprints.console.languages import gettext as _
from migration_service.blueprints.console.languages import lazy_gettext as _l
from migration_service.blueprints.console.languages import ngettext
from migration_service.blueprints.requests.resources import resources
from migration_service.services.reconciliation.comparisons import get_batch_to_reconcile
from migration_service.services.reconciliation.receipts import Receipt, accept_exception, read_receipt
from migration_service.services.reconciliation.verdict import SENTENCES
from migration_service.states import Problem

blueprint = Blueprint("receipts", __name__, url_prefix="/suppliers/<code>/receipt")


class ExceptionForm(ActionForm):
    """What is accepted, and why."""

    problem = SelectField(_l("What is accepted"))
    external_account_number = StringField(
        _l("Only this account"),
        description=_l("Of created accounts that differ. Empty: all of them."),
    )
    reason = reason_field()


@blueprint.route("/accept/", methods=["GET", "POST"])
def accept(code: str) -> Response:
    """Accept something that is open in the receipt of a supplier, or of the batch in the address."""
    form = ExceptionForm()
    with resources().Session.begin() as session:
        open_ = _read(session, code).open
    form.problem.choices = [(it.value, ngettext(*SENTENCES[it], number)) for it, number in open_.items()]

    def preview(session: Session) -> Preview:
        receipt = _read(session, code)
        batch_id = receipt.batch_id
        is_empty = receipt.comparison_id is None or not receipt.open
        sentence = _("It is no longer in the way of go-live, until the next comparison.")
        return Preview(
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

    def perform(session: Session) -> Done:
        accept_exception(
            session,
            supplier_of(session, code),
            _batch_id(session, code),
            Problem(form.problem.data),
            reason=str(form.reason.data),
            external_account_number=(form.external_account_number.data or "").strip() or None,
        )
        return Done(_("It is accepted."))

    return act(form, preview, perform)


def _batch_id(session: Session, code: str) -> UUID | None:
    return get_batch_to_reconcile(session, request.args.get("batch") or None, supplier_of(session, code))


def _read(session: Session, code: str) -> Receipt:
    return read_receipt(session, supplier_of(session, code), _batch_id(session, code))
