"""Acknowledgements, with a reason, that sent accounts or lines will not be imported."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any
from uuid import UUID

from sqlalchemy import (
    ARRAY,
    BigInteger,
    ScalarResult,
    Select,
    Text,
    TextualSelect,
    bindparam,
    case,
    exists,
    func,
    select,
    text,
)
from sqlalchemy.orm import Session, sessionmaker

from migration_service.db.cancelling import allow_minutes
from migration_service.errors import ErrorItem, RequestFailedValidationError
from migration_service.models import AccountImportProcess, Acknowledgement, ImportSupplier
from migration_service.services.audit.entries import AuditAction, record_about
from migration_service.services.reconciliation import submitted
from migration_service.states import ImportState, LineStatus

#: The number of accounts or lines listed in an audit entry, which also has the hash of all of them.
MOST_LISTED = 1_000
#: The number of acknowledgements that are read together.
PIECE = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class AcknowledgementOrder:
    """A request to acknowledge accounts, or lines of a batch: without a number, or of added data."""

    reason: str
    acknowledged_by: str
    external_account_numbers: Sequence[str] = ()
    batch_id: UUID | None = None
    #: The lines, or None for all lines of the batch without a number, or its open lines of added data.
    line_numbers: Sequence[int] | None = None


def acknowledge(session: Session, import_supplier_id: int, order: AcknowledgementOrder) -> int:
    """Store the acknowledgement of each account and line. Return their number.

    Raise RequestFailedValidationError if one of them was not refused. A staged account can be skipped
    instead, an undo takes back what a line has added, and an account that was created or never sent needs no
    acknowledgement.
    """
    adds_data = submitted.is_of_added_data(session, order.batch_id)
    allow_minutes(session)
    rows = session.execute(
        ACKNOWLEDGE_ADDED_LINES if adds_data else ACKNOWLEDGE,
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
        ErrorItem(
            "invalid", (_NOT_THERE if adds_data else _NOT_UNNUMBERED).format(number), f"line_numbers.{index}"
        )
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
        record_about(session, AuditAction.REFUSALS_ACKNOWLEDGED, supplier, details)
    return len(rows)


def _list(numbers: Sequence[str], lines: Sequence[int]) -> dict[str, Any]:
    """Return the details for the audit: the first accounts or lines, and the hash of all."""
    texts = [*numbers, *map(str, lines)]
    return {
        "accounts" if numbers else "lines": [*numbers, *lines][:MOST_LISTED],
        "sha256": sha256("".join(f"{text}\n" for text in texts).encode()).hexdigest(),
    }


def list_acknowledgements(
    session: Session,
    import_supplier_id: int,
    *,
    before: int | None = None,
    limit: int | None = None,
    not_created: bool = False,
) -> ScalarResult[Acknowledgement]:
    """Return why accounts and lines of a supplier stay out, newest first, optionally only before an id.

    Of an account or a line that was acknowledged repeatedly, only the latest acknowledgement is among them,
    and none of an account whose newest version was staged after all. With `not_created`, only those of what
    counts as sent, acknowledged and not created.
    """
    statement = select(Acknowledgement).where(
        Acknowledgement.id.in_(_latest(import_supplier_id, not_created=not_created))
    )
    if before is not None:
        statement = statement.where(Acknowledgement.id < before)
    statement = statement.order_by(Acknowledgement.id.desc()).limit(limit)
    return session.scalars(statement)


def read_acknowledgements(
    sessions: sessionmaker[Session], import_supplier_id: int
) -> Iterator[Sequence[Acknowledgement]]:
    """Yield pages of a supplier's acknowledgements, newest first. Each is read in a separate transaction."""
    before = None
    while True:
        with sessions.begin() as session:
            page = list_acknowledgements(session, import_supplier_id, before=before, limit=PIECE).all()
        if page:
            yield page
        if len(page) < PIECE:
            return
        before = page[-1].id


def count_acknowledgements(session: Session, import_supplier_id: int, *, not_created: bool = False) -> int:
    """Return the number of acknowledgements that `list_acknowledgements` lists."""
    latest = _latest(import_supplier_id, not_created=not_created).subquery()
    return session.scalar(select(func.count()).select_from(latest)) or 0


def _latest(import_supplier_id: int, *, not_created: bool) -> Select[int] | TextualSelect:
    if not_created:
        values = {"import_supplier_id": import_supplier_id, "batch_id": None}
        return submitted.ACKNOWLEDGED_UNSTAGED.bindparams(**values).columns(Acknowledgement.id)
    number = Acknowledgement.external_account_number
    line = [
        case((number.is_(None), column)) for column in (Acknowledgement.batch_id, Acknowledgement.line_number)
    ]
    in_newest_version = exists().where(
        AccountImportProcess.import_supplier_id == import_supplier_id,
        AccountImportProcess.external_account_number == number,
        AccountImportProcess.refused_at.is_(None),
    )
    return (
        select(func.max(Acknowledgement.id))
        .where(Acknowledgement.import_supplier_id == import_supplier_id, ~in_newest_version)
        .group_by(number, *line)
    )


_NOT_REFUSED = (
    "{} was not refused and is not waiting. A staged account can be skipped. An account that was created or "
    "never sent needs no acknowledgement."
)
_NOT_THERE = (
    "Line {} of the batch does not exist, is no longer kept, or was added to its account. An undo of the "
    "batch takes back what was added."
)
_NOT_UNNUMBERED = (
    "Line {} of the batch does not exist, or it has an account number. In that case acknowledge the number."
)

#: Acknowledges items without an import process: these account numbers, or these lines of a batch without a
#: number (all such lines if NULL). For accounts that exist, acknowledges that they are an older version.
#: Returns the acknowledged items.
ACKNOWLEDGE = text(f"""
    WITH unsettled AS MATERIALIZED ({submitted.UNSETTLED})
    INSERT INTO acknowledgement (import_supplier_id, external_account_number, batch_id, line_number, reason,
        acknowledged_by)
    SELECT :import_supplier_id, external_account_number, batch_id, line_number, :reason, :acknowledged_by
    FROM unsettled
    WHERE status <> '{LineStatus.SKIPPED}' AND external_account_number = ANY (:numbers)
       OR (unnumbered AND batch_id = :batch_id
           AND (:line_numbers IS NULL OR line_number = ANY (:line_numbers)))
    UNION ALL
    SELECT import_supplier_id, external_account_number, refused_batch_id, refused_line_number, :reason,
        :acknowledged_by
    FROM account_import_process
    WHERE import_supplier_id = :import_supplier_id AND external_account_number = ANY (:numbers)
      AND state = '{ImportState.IMPORTED}' AND refused_at IS NOT NULL
    RETURNING external_account_number, line_number
""").bindparams(
    submitted.BATCH_ID,
    bindparam("numbers", type_=ARRAY(Text)),
    bindparam("line_numbers", type_=ARRAY(BigInteger)),
)

#: Acknowledges these lines of a batch of added data, or all that are open. Returns them. A line of which
#: something is on its account is not among them: it would be neither compared nor taken back any more.
ACKNOWLEDGE_ADDED_LINES = text(f"""
    INSERT INTO acknowledgement (import_supplier_id, batch_id, line_number, reason, acknowledged_by)
    SELECT :import_supplier_id, batch_id, line_number, :reason, :acknowledged_by
    FROM ({submitted.ADDED_LINES}) AS line
    WHERE CASE WHEN :line_numbers IS NULL
               THEN outcome IN ('{LineStatus.FAILED}', '{LineStatus.PENDING}') AND NOT is_acknowledged
               ELSE line_number = ANY (:line_numbers) AND (
                   outcome <> '{LineStatus.ADDED}' OR understood IS NULL OR NOT EXISTS (
                       SELECT FROM account WHERE account.import_supplier_id = :import_supplier_id
                         AND account.external_account_number = line.external_account_number
                         AND account.service_account_number = line.service_account_number
                         AND account.erased_at IS NULL)) END
    RETURNING CAST(NULL AS text) AS external_account_number, line_number
""").bindparams(submitted.BATCH_ID, bindparam("line_numbers", type_=ARRAY(BigInteger)))
