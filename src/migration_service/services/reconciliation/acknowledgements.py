"""Acknowledgements, with a reason, that sent accounts or lines will not be imported."""

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any
from uuid import UUID

from sqlalchemy import ScalarResult, Select, case, func, select
from sqlalchemy.orm import Session

from migration_service.errors import ErrorItem, RequestFailedValidationError
from migration_service.models import Acknowledgement, ImportSupplier
from migration_service.services.audit.entries import AuditAction, record
from migration_service.services.reconciliation.submitted_items import OpenItem
from migration_service.services.reconciliation.submitted_sql import ACKNOWLEDGE, LIST_REFUSED
from migration_service.states import OpenReason

#: The number of accounts or lines listed in an audit entry, which also has the hash of all of them.
MOST_LISTED = 1_000
#: The number of acknowledgements that are read together.
PIECE = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class AcknowledgementOrder:
    """A request to acknowledge accounts, or lines of a batch without an account number."""

    reason: str
    acknowledged_by: str
    external_account_numbers: Sequence[str] = ()
    batch_id: UUID | None = None
    #: The lines, or None for all lines of the batch without a number.
    line_numbers: Sequence[int] | None = None


def acknowledge(session: Session, import_supplier_id: int, order: AcknowledgementOrder) -> int:
    """Store the acknowledgement of each account and line. Return their number.

    Raise RequestFailedValidationError if one of them was not refused. A staged account can be skipped
    instead, and an account that was created or never sent needs no acknowledgement.
    """
    rows = session.execute(
        ACKNOWLEDGE,
        {
            "import_supplier_id": import_supplier_id,
            "batch_id": order.batch_id,
            "numbers": list(order.external_account_numbers),
            "line_numbers": None if order.line_numbers is None else list(order.line_numbers),
            "reason": order.reason,
            "acknowledged_by": order.acknowledged_by,
        },
    ).all()
    numbers = {row.external_account_number for row in rows if row.external_account_number is not None}
    lines = {row.line_number for row in rows if row.external_account_number is None}
    errors = [
        ErrorItem("invalid", _NOT_REFUSED.format(f"Account {number!r}"), f"external_account_numbers.{index}")
        for index, number in enumerate(order.external_account_numbers)
        if number not in numbers
    ] + [
        ErrorItem("invalid", _NOT_UNNUMBERED.format(number), f"line_numbers.{index}")
        for index, number in enumerate(order.line_numbers or ())
        if number not in lines
    ]
    if errors:
        raise RequestFailedValidationError(errors[0].detail, errors=errors)
    if rows:
        supplier = session.get_one(ImportSupplier, import_supplier_id)
        details = {
            "acknowledged": len(rows),
            "batch_id": order.batch_id and str(order.batch_id),
            "reason": order.reason,
            "by": order.acknowledged_by,
            **_list(sorted(numbers), sorted(lines)),
        }
        record(
            session,
            AuditAction.REFUSALS_ACKNOWLEDGED,
            "import_supplier",
            supplier.code,
            organisation_id=supplier.organisation_id,
            details=details,
        )
    return len(rows)


def _list(numbers: Sequence[str], lines: Sequence[int]) -> dict[str, Any]:
    """Return the details for the audit: the first accounts or lines, and the hash of all."""
    texts = [*numbers, *map(str, lines)]
    return {
        "accounts" if numbers else "lines": [*numbers, *lines][:MOST_LISTED],
        "sha256": sha256("".join(f"{text}\n" for text in texts).encode()).hexdigest(),
    }


def find_refused(
    session: Session, import_supplier_id: int, *, batch_id: UUID | None, code: str | None, limit: int
) -> list[OpenItem]:
    """Return refused items that are not acknowledged, optionally of one batch or with one error code."""
    values = {"import_supplier_id": import_supplier_id, "batch_id": batch_id, "code": code, "limit": limit}
    return [
        OpenItem(
            row.external_account_number, OpenReason.REFUSED, row.batch_id, row.line_number, row.errors or []
        )
        for row in session.execute(LIST_REFUSED, values)
    ]


def list_acknowledgements(
    session: Session, import_supplier_id: int, *, before: int | None = None, limit: int | None = None
) -> ScalarResult[Acknowledgement]:
    """Return a supplier's acknowledgements, newest first, optionally only those before an id.

    They are read from the database in pieces. If an account or a line was acknowledged repeatedly, only its
    latest acknowledgement is among them.
    """
    statement = select(Acknowledgement).where(Acknowledgement.id.in_(_latest(import_supplier_id)))
    if before is not None:
        statement = statement.where(Acknowledgement.id < before)
    statement = statement.order_by(Acknowledgement.id.desc()).limit(limit)
    return session.scalars(statement, execution_options={"yield_per": PIECE})


def count_acknowledgements(session: Session, import_supplier_id: int) -> int:
    """Return the number of accounts and lines that a supplier has acknowledged."""
    return session.scalar(select(func.count()).select_from(_latest(import_supplier_id).subquery())) or 0


def _latest(import_supplier_id: int) -> Select[int]:
    """Return the query for the latest acknowledgement of each account and each line without a number."""
    number = Acknowledgement.external_account_number
    line = [
        case((number.is_(None), column)) for column in (Acknowledgement.batch_id, Acknowledgement.line_number)
    ]
    return (
        select(func.max(Acknowledgement.id))
        .where(Acknowledgement.import_supplier_id == import_supplier_id)
        .group_by(number, *line)
    )


_NOT_REFUSED = (
    "{} was not refused and is not waiting. A staged account can be skipped. An account that was created or "
    "never sent needs no acknowledgement."
)
_NOT_UNNUMBERED = (
    "Line {} of the batch does not exist, or it has an account number. In that case acknowledge the number."
)
