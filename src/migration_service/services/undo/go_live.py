"""Go-live, after which accounts belong to the platform and cannot be undone.

A person decides it for a supplier, for a batch or a wave that has ended, or for single accounts, now or at a
moment that can still be changed until it comes. A supplier goes live at its moment, whatever the number of
its accounts, and workers mark accounts one by one (`going_live`). `services.accounts.ownership` says who owns
an account.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from sqlalchemy import func, select, text
from sqlalchemy.orm import Session

from migration_payloads.moments import write_moment
from migration_service import errors
from migration_service.config import Settings
from migration_service.db.base import new_id, one_of
from migration_service.db.cancelling import allow_minutes
from migration_service.models import Account, Batch, GoLive, ImportSupplier, ReceiptException
from migration_service.origin import current_origin, fold_names
from migration_service.services.accounts.ownership import has_gone_live
from migration_service.services.audit.entries import AuditAction, record
from migration_service.services.batches.clock import read_clock
from migration_service.services.emails.customer_emails import count_for_go_live
from migration_service.services.reconciliation import receipts
from migration_service.services.reconciliation.verdict import describe_problems
from migration_service.services.setup.suppliers import IS_NEW, KnownSupplier, get_owned, list_owned
from migration_service.services.undo import going_live
from migration_service.services.undo.orders import get_batch_of_accounts, require_known
from migration_service.services.waves.reading import find_wave
from migration_service.services.waves.running import ENDED
from migration_service.states import GoLiveState, Owner

#: A go-live further in the future counts as a mistake.
_FARTHEST = timedelta(days=5 * 366)
_COLUMNS = (
    "batch_id",
    "state",
    "live_at",
    "decided_by",
    "accounts",
    "emails",
    "receipt",
    "created_at",
    "finished_at",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """What a go-live asks for (settings go_live_receipt_hours and go_live_four_eyes)."""

    #: The greatest age of the receipt's comparison. 0: no receipt is needed.
    hours: float
    needs_another_person: bool = False

    @classmethod
    def of(cls, settings: Settings) -> "Gate":
        """Return the gate of the settings."""
        return cls(hours=settings.go_live_receipt_hours, needs_another_person=settings.go_live_four_eyes)


@dataclass(frozen=True, slots=True, kw_only=True)
class GateAnswer:
    """What the gate says of a go-live, at this moment."""

    gate: Gate
    #: None for named accounts, or if the gate asks for none.
    receipt: receipts.Receipt | None = None
    #: What was accepted of what goes live.
    exceptions: Sequence[ReceiptException] = ()
    #: Whether the comparison of the receipt is recent enough.
    is_compared: bool = True
    #: The number of named accounts that nothing proves.
    unproven: int = 0

    @property
    def sentences(self) -> list[str]:
        """Return why the go-live is not allowed yet, in English. Empty if it is."""
        hours = f"{self.gate.hours:g} hours"
        told = [] if self.is_compared else [f"There is no comparison of the last {hours}: reconcile first."]
        if self.unproven:
            told.append(f"Accounts that were not compared within {hours}, or differ: {self.unproven:,}.")
        return told + describe_problems(self.receipt.open if self.receipt else {})


@dataclass(frozen=True, slots=True, kw_only=True)
class GoLiveOrder:
    """The accounts that go live: all of a supplier, those of a batch, or those with these numbers."""

    supplier: KnownSupplier
    gate: Gate
    #: The moment, or None for now. Of a supplier, it may be past if somebody has confirmed that.
    at: datetime | None = None
    may_be_past: bool = False
    batch: Batch | None = None
    external_account_numbers: Sequence[str] | None = None
    #: The name of the person who decided, if not the actor.
    by: str | None = None

    @property
    def is_of_supplier(self) -> bool:
        """Return whether all accounts of the supplier go live."""
        return self.batch is None and self.external_account_numbers is None

    def numbers(self) -> list[str] | None:
        """Return the numbers as a list, without repetitions, or None."""
        given = self.external_account_numbers
        return None if given is None else [*dict.fromkeys(given)]


@dataclass(frozen=True, slots=True, kw_only=True)
class GoLivePreview:
    """The effect of a go-live, to show before it is confirmed."""

    import_supplier: str
    batch_id: UUID | None
    plan_id: UUID | None
    wave_number: int | None
    live_at: datetime
    is_past: bool
    #: The future moment of the supplier or the batch that it replaces.
    before: datetime | None
    #: The number of existing accounts that could still be undone, and of those that have gone live already.
    accounts: int
    already_live: int
    #: The number of held e-mails to customers that are then sent.
    emails: int
    #: Why it is not allowed yet, in English. Empty if it is.
    not_ready: list[str]


def preview_go_live(session: Session, order: GoLiveOrder) -> GoLivePreview:
    """Return the effect of a go-live. Nothing is changed. Raise the errors of `start_go_live`."""
    supplier, now = _check(session, order)
    wave = find_wave(session, order.batch.id if order.batch else None)
    scope = (supplier.id, order.batch.id if order.batch else None, order.numbers())
    counted, (accounts, values) = count_owners(session, *scope), _scope(session, *scope)
    return GoLivePreview(
        import_supplier=supplier.code,
        batch_id=order.batch.id if order.batch else None,
        plan_id=wave.plan_id if wave else None,
        wave_number=wave.number if wave else None,
        live_at=order.at or now,
        is_past=order.at is not None and order.at <= now,
        before=planned.live_at if (planned := _find_planned(session, order)) else None,
        accounts=counted[Owner.OLD],
        already_live=counted[Owner.NEW],
        emails=count_for_go_live(session, supplier, f"SELECT account.id {accounts}", values),
        not_ready=ask_gate(session, order).sentences,
    )


def start_go_live(session: Session, order: GoLiveOrder) -> GoLive:
    """Store a go-live, and return it for the caller to dispatch it. A planned one of the same is changed.

    Accounts that a worker is reverting are finished first. Raise GoLivePastError if the moment is past and
    that was not confirmed, GoLiveFarError, ImportSupplierLiveError, RequestFailedValidationError with each
    number without an account, NothingGoesLiveError, GoLiveNotReadyError and
    GoLiveFourEyesError.
    """
    supplier, now = _check(session, order, locked=True)
    if order.at is not None and order.at <= now and not (order.may_be_past and order.is_of_supplier):
        raise errors.GoLivePastError(found=write_moment(order.at))
    asked = ask_gate(session, order)
    if sentences := asked.sentences:
        items = [errors.ErrorItem(errors.GoLiveNotReadyError.code, detail, None) for detail in sentences]
        raise errors.GoLiveNotReadyError(" ".join(sentences), errors=items)
    receipt, actor = asked.receipt, current_origin().who
    who = order.by or actor
    accepted = fold_names(*(name for it in asked.exceptions for name in (it.accepted_by, it.accepted_as)))
    if order.gate.needs_another_person and accepted & fold_names(who, actor):
        raise errors.GoLiveFourEyesError
    planned = _find_planned(session, order)
    it = planned or GoLive(
        id=new_id(),
        organisation_id=supplier.organisation_id,
        import_supplier_id=supplier.id,
        batch_id=order.batch.id if order.batch else None,
        external_account_numbers=order.numbers(),
    )
    before, it.live_at = it.live_at, order.at or now
    it.decided_by = who
    it.receipt = receipt.as_json() if receipt else None
    session.add(it)
    session.flush()
    session.refresh(it)
    if not order.is_of_supplier and not going_live.find_unmarked(session, it):
        raise errors.NothingGoesLiveError
    if order.is_of_supplier:
        supplier.live_at, supplier.live_by = it.live_at, it.decided_by
    details: dict[str, object] = {
        "live_at": write_moment(it.live_at),
        "before": write_moment(before) if before else None,
        **({"by": order.by} if order.by else {}),
    }
    owner = supplier.organisation_id
    if order.is_of_supplier:
        action, subject = AuditAction.SUPPLIER_LIVE_SET, ("import_supplier", supplier.code)
    else:
        action, subject = AuditAction.ACCOUNTS_LIVE_SET, ("go_live", str(it.id))
        details |= {
            "import_supplier": supplier.code,
            "batch_id": str(it.batch_id) if it.batch_id else None,
            "accounts": len(it.external_account_numbers or ()) or None,
        }
    record(session, action, *subject, organisation_id=owner, details=details)
    session.flush()
    return it


def cancel_go_live(session: Session, it: GoLive) -> None:
    """Cancel a go-live whose moment has not come. Raise GoLiveStateError otherwise."""
    supplier = session.get_one(
        ImportSupplier, it.import_supplier_id, populate_existing=True, with_for_update={"key_share": True}
    )
    session.refresh(it, with_for_update=True)
    if it.state != GoLiveState.PENDING or it.live_at <= read_clock(session):
        raise errors.GoLiveStateError
    it.state, it.finished_at = GoLiveState.CANCELLED, func.now()
    if it.is_of_supplier:
        supplier.live_at = supplier.live_by = None
    owner, details = it.organisation_id, {"import_supplier": supplier.code}
    record(session, AuditAction.GO_LIVE_CANCELLED, "go_live", it.id, organisation_id=owner, details=details)


def get_batch_to_go_live(session: Session, batch_id: str, supplier: KnownSupplier) -> Batch:
    """Return the batch of accounts. Raise BatchStateError unless it has ended."""
    batch = get_batch_of_accounts(session, batch_id, supplier)
    if batch.state not in ENDED:
        raise errors.BatchStateError(
            f"The batch is {batch.state}. Its accounts can go live when it has ended."
        )
    return batch


def get_go_live(session: Session, go_live_id: str, *, organisation_id: int | None) -> GoLive:
    """Return the organisation's go-live, or any if the organisation is None. Raise GoLiveNotFoundError."""
    return get_owned(session, GoLive, go_live_id, errors.GoLiveNotFoundError, organisation_id)


def report_go_live(session: Session, it: GoLive) -> dict[str, Any]:
    """Return a go-live and its progress, by the names of the interface."""
    wave = find_wave(session, it.batch_id)
    return {
        "go_live_id": it.id,
        "import_supplier": session.get_one(ImportSupplier, it.import_supplier_id).code,
        "plan_id": wave.plan_id if wave else None,
        "wave_number": wave.number if wave else None,
        **{name: getattr(it, name) for name in _COLUMNS},
    }


def list_go_lives(session: Session, **wanted: Any) -> list[dict[str, Any]]:
    """Return the go-lives that `list_owned` finds."""
    return [report_go_live(session, it) for it in list_owned(session, GoLive, **wanted)]


def _check(session: Session, order: GoLiveOrder, *, locked: bool = False) -> tuple[ImportSupplier, datetime]:
    """Return the supplier, and the time now. Raise an error if the order cannot be carried out."""
    found = select(ImportSupplier).where(ImportSupplier.id == order.supplier.id)
    found = found.execution_options(populate_existing=True)
    supplier = session.scalars(found.with_for_update(key_share=True) if locked else found).one()
    now = read_clock(session)
    if has_gone_live(session, supplier.id) and supplier.live_at:
        went_at = write_moment(supplier.live_at)
        raise errors.ImportSupplierLiveError(f"Import supplier {supplier.code!r} went live at {went_at}.")
    if order.at is not None and order.at > now + _FARTHEST:
        raise errors.GoLiveFarError(found=write_moment(order.at))
    if (numbers := order.numbers()) is not None:
        existing = select(Account.external_account_number).where(
            Account.import_supplier_id == supplier.id,
            one_of(Account.external_account_number.expression, numbers),
        )
        detail = "Account {!r} is not imported. Only existing accounts can go live."
        known = set(session.scalars(existing))
        require_known(order.external_account_numbers or (), known, errors.NothingGoesLiveError, detail)
    return supplier, now


def ask_gate(session: Session, order: GoLiveOrder) -> GateAnswer:
    """Return what the gate of an order says now.

    Named accounts need no receipt of the whole book: each must be compared, and equal or accepted.
    """
    if not order.gate.hours:
        return GateAnswer(gate=order.gate)
    if (numbers := order.numbers()) is not None:
        return GateAnswer(
            gate=order.gate,
            exceptions=receipts.list_named_exceptions(session, order.supplier, numbers),
            unproven=receipts.count_unproven(session, order.supplier, numbers, order.gate.hours),
        )
    receipt = receipts.read_receipt(session, order.supplier, order.batch.id if order.batch else None)
    oldest = read_clock(session) - timedelta(hours=order.gate.hours)
    compared_at = receipt.verdict.compared_at
    return GateAnswer(
        gate=order.gate,
        receipt=receipt,
        exceptions=receipt.exceptions,
        is_compared=compared_at is not None and compared_at >= oldest,
    )


def _find_planned(session: Session, order: GoLiveOrder) -> GoLive | None:
    """Return the go-live of the same supplier or batch whose moment has not come, if any."""
    if order.external_account_numbers is not None:
        return None
    planned = select(GoLive).where(
        GoLive.import_supplier_id == order.supplier.id,
        GoLive.batch_id.is_not_distinct_from(order.batch and order.batch.id),
        GoLive.external_account_numbers.is_(None),
        GoLive.finished_at.is_(None),
        GoLive.live_at > func.clock_timestamp(),
    )
    return session.scalars(planned).first()


def count_owners(
    session: Session,
    import_supplier_id: int,
    batch_id: UUID | None = None,
    numbers: Sequence[str] | None = None,
) -> Counter[str]:
    """Return how many accounts of a supplier, of a batch or with these numbers have which `Owner`."""
    allow_minutes(session)
    scope, values = _scope(session, import_supplier_id, batch_id, numbers)
    return Counter(session.execute(_COUNT[scope], values).mappings().one())


def _scope(
    session: Session, import_supplier_id: int, batch_id: UUID | None, numbers: Sequence[str] | None
) -> tuple[str, dict[str, object]]:
    """Return the SQL for the accounts that a go-live now would be of, and its parameters."""
    given = None if numbers is None else list(numbers)
    values: dict[str, object] = {
        "import_supplier_id": import_supplier_id,
        "batch_id": batch_id,
        "numbers": given,
        "after": "",
        "until": read_clock(session),
    }
    return going_live.scope_of(batch_id, given), values


_COUNT = {
    scope: text(f"""
        SELECT count(*) FILTER (WHERE NOT {IS_NEW}) AS old, count(*) FILTER (WHERE {IS_NEW}) AS new
        FROM import_supplier AS supplier CROSS JOIN LATERAL (SELECT account.live_at {scope}) AS account
        WHERE supplier.id = :import_supplier_id""")
    for scope in (going_live.OF_SUPPLIER, going_live.OF_BATCH, going_live.OF_NUMBERS)
}
