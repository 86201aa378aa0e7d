"""Pages to acknowledge refused accounts and lines that will not be migrated."""

from collections import defaultdict
from uuid import UUID

from flask import Blueprint, request, url_for
from sqlalchemy.orm import Session
from werkzeug.wrappers import Response

from migration_service.blueprints.console.access import current_operator, supplier_of
from migration_service.blueprints.console.acting import Done, Facts, Preview, ReasonForm, act
from migration_service.blueprints.console.counting import keep
from migration_service.blueprints.console.filters import read_yes_no
from migration_service.blueprints.console.languages import _, ngettext
from migration_service.blueprints.console.lists import list_at, show_list
from migration_service.blueprints.requests.resources import resources
from migration_service.schemas.paging import row_id
from migration_service.services.reconciliation.acknowledgements import (
    AcknowledgementOrder,
    acknowledge,
    count_acknowledgements,
    list_acknowledgements,
)
from migration_service.services.reconciliation.comparisons import get_batch_to_reconcile
from migration_service.services.reconciliation.submitted import OpenItem, find_refused, read_place
from migration_service.services.setup.suppliers import KnownSupplier
from migration_service.states import OpenReason

blueprint = Blueprint("acknowledgements", __name__, url_prefix="/suppliers/<code>/acknowledgements")

#: The most accounts and lines that one form acknowledges.
_MOST = 10_000
#: The most accounts that a form lists.
_EXAMPLES = 5


_COLUMNS = "external_account_number batch_id line_number acknowledged_by acknowledged_at reason"


@list_at(blueprint, "/")
def show_all(code: str) -> Response:
    """List why accounts and lines stay out, newest first: of all, or of what was sent and is not created."""
    with resources().Session.begin() as session:
        supplier = supplier_of(session, code)
    wanted = {"not_created": read_yes_no("created") is False}
    return show_list(
        "acknowledgements.html",
        lambda session, **page: list_acknowledgements(session, supplier.id, **page, **wanted).all(),
        _COLUMNS,
        lambda session, _found: {
            "supplier": supplier,
            "number": count_acknowledgements(session, supplier.id, **wanted),
        },
        key="id",
        read_key=row_id,
    )


@blueprint.route("/new/", methods=["GET", "POST"])
def add(code: str) -> Response:
    """Acknowledge the accounts and lines in the address, or those refused in a batch or for an error."""
    form = ReasonForm()

    def preview(session: Session) -> Preview:
        supplier = supplier_of(session, code)
        found = _find(session, supplier)
        number = len(found[:_MOST])
        return Preview(
            title=_("Acknowledge what is not migrated"),
            sentence=ngettext(
                "%(num)s refused account or line will not be migrated, and is no longer open.",
                "%(num)s refused accounts or lines will not be migrated, and are no longer open.",
                number,
            ),
            button=ngettext("Acknowledge %(num)s", "Acknowledge %(num)s", number),
            back=_back(code),
            is_empty=not found,
            facts=_describe(found),
        )

    def perform(session: Session) -> Done:
        supplier = supplier_of(session, code)
        reason, name = str(form.reason.data), current_operator().name
        done = sum(
            acknowledge(session, supplier.id, order)
            for order in _orders(_find(session, supplier)[:_MOST], reason, name)
        )
        message = ngettext(
            "%(num)s account or line is acknowledged.", "%(num)s accounts or lines are acknowledged.", done
        )
        return Done(message, url_for("acknowledgements.show_all", code=code))

    return act(form, preview, perform)


def _find(session: Session, supplier: KnownSupplier) -> list[OpenItem]:
    """Return what the address names: accounts and lines by number, or everything refused."""
    given = request.args
    if "account" in given or "line" in given:
        lines = given.getlist("line", type=lambda line: read_place(f"line.{line}"))
        return [*(OpenItem(number, OpenReason.REFUSED) for number in given.getlist("account")), *lines]
    batch_id = get_batch_to_reconcile(session, given.get("batch") or None, supplier)
    wanted = given.get("error") or None

    def find(own: Session) -> list[OpenItem]:
        return find_refused(own, supplier.id, batch_id=batch_id, code=wanted, limit=_MOST + 1)

    name = f"refused:{supplier.id}:{batch_id}:{wanted}"
    return keep(session, name, list[OpenItem], find)[0] if request.method == "GET" else find(session)


def _orders(items: list[OpenItem], reason: str, name: str) -> list[AcknowledgementOrder]:
    """Return an order for the accounts, and one for each batch that has lines without a number."""
    numbers = list(
        dict.fromkeys(
            it.external_account_number for it in items if not it.is_line and it.external_account_number
        )
    )
    lines: dict[UUID, list[int]] = defaultdict(list)
    for it in items:
        if it.is_line and it.batch_id is not None and it.line_number is not None:
            lines[it.batch_id].append(it.line_number)
    accounts = AcknowledgementOrder(reason=reason, acknowledged_by=name, external_account_numbers=numbers)
    return [accounts] * bool(numbers) + [
        AcknowledgementOrder(
            reason=reason, acknowledged_by=name, batch_id=batch_id, line_numbers=line_numbers
        )
        for batch_id, line_numbers in lines.items()
    ]


def _describe(items: list[OpenItem]) -> Facts:
    numbers = [it.external_account_number for it in items if it.external_account_number and not it.is_line]
    named = ", ".join(numbers[:_EXAMPLES]) + ("…" if len(numbers) > _EXAMPLES else "")
    facts = [
        (_("Error"), request.args.get("error")),
        (_("Accounts"), named),
        (_("Lines without an account number, or of added data"), len(items) - len(numbers)),
    ]
    if len(items) > _MOST:
        facts.append((_("The limit of one form is reached"), _("Acknowledge the others afterwards.")))
    return tuple((name, value) for name, value in facts if value)


def _back(code: str) -> str:
    batch_id, wanted = request.args.get("batch", type=UUID), request.args.get("error")
    if batch_id and wanted:
        return url_for("findings.show_code", batch_id=batch_id, code=wanted)
    if batch_id:
        return url_for("batches.show", batch_id=batch_id)
    return url_for("suppliers.reconcile", code=code)
