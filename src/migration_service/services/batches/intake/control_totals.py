"""The control totals of a batch: the totals that the supplier expects, compared with the file."""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any
from uuid import UUID

from sqlalchemy.orm import Session

from migration_payloads.files.totals import list_measures
from migration_service.errors import BatchStateError
from migration_service.models import Batch
from migration_service.services.audit.entries import AuditAction, record

#: The member of the control totals for each measure. Other measures are amounts and counts of transactions.
_SECTIONS = {"accounts": "accounts", "statements": "statements", "balance": "ledger_balances"}


@dataclass(frozen=True, slots=True)
class ControlTotal:
    """One total: the supplier's value, and the sum over all lines of the file."""

    measure: str
    #: None if the supplier gave no value.
    given: Decimal | None
    file: Decimal
    #: `file` minus `given`.
    difference: Decimal | None


@dataclass(frozen=True, slots=True)
class ControlTotals:
    """The control totals of a batch, compared with its file. The names are those of the interface."""

    batch_id: UUID
    #: As the supplier gave them, or None if it gave none.
    control_totals: Mapping[str, Any] | None
    #: Empty if the batch has no file of accounts.
    totals: list[ControlTotal]
    differing: int | None
    as_given: bool | None
    unreadable_lines: int
    unreadable_amounts: int


def report_control_totals(batch: Batch) -> ControlTotals:
    """Return the control totals of a batch, compared with its file."""
    given, file = batch.control_totals, batch.file_totals
    totals = _compare(given or {}, file) if file else []
    differing = sum(bool(total.difference) for total in totals) if given and file else None
    unreadable = [file[name] if file else 0 for name in ("unreadable_lines", "unreadable_amounts")]
    as_given = None if differing is None else not (differing or any(unreadable))
    return ControlTotals(batch.id, given, totals, differing, as_given, *unreadable)


def set_control_totals(session: Session, batch: Batch, given: Mapping[str, Any]) -> ControlTotals:
    """Store the control totals of a batch. Raise BatchStateError if it has no file of accounts."""
    if batch.file_totals is None:
        detail = "The batch has no file of accounts that was added up, so control totals have nothing to be"
        raise BatchStateError(f"{detail} compared with.")
    batch.control_totals = dict(given)
    session.flush()
    report = report_control_totals(batch)
    details = {"differing": report.differing, "as_given": report.as_given}
    owner, action = batch.organisation_id, AuditAction.BATCH_CONTROL_TOTALS_SET
    record(session, action, "batch", batch.id, organisation_id=owner, details=details)
    return report


def _compare(given: Mapping[str, Any], file: Mapping[str, Any]) -> list[ControlTotal]:
    said, found = list_measures(given), list_measures(file)
    totals = []
    for measure in sort_measures({*said, *found}):
        is_given = _SECTIONS.get(measure.split()[0], "transactions") in given
        value = said.get(measure, Decimal(0)) if is_given else None
        in_file = found.get(measure, Decimal(0))
        totals.append(ControlTotal(measure, value, in_file, None if value is None else in_file - value))
    return totals


def sort_measures(measures: set[str]) -> list[str]:
    """Return the measures in display order: accounts, balances, transactions, statements."""
    order = ("accounts", "balance", "number", "amount", "statements")

    def place(measure: str) -> tuple[bool, str, int]:
        kind, _, of = measure.partition(" of ")
        first, last = kind in ("accounts", "balance"), kind == "statements"
        return (not first, "~" if last else of if not first else kind, order.index(kind))

    return sorted(measures, key=lambda measure: (*place(measure), measure))
