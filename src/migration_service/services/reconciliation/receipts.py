"""Receipts: what a kept comparison found, with what people accepted of it, as go-live asks for it.

A receipt is the verdict about a supplier or a batch, the comparison that it relies on, the files that were
sent, and the exceptions. An exception belongs to its comparison: after the next one it is decided again.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlalchemy import Uuid, bindparam, select, text
from sqlalchemy.orm import Session

from migration_payloads.moments import write_moment
from migration_service.db.base import one_of
from migration_service.errors import ErrorItem, NoReceiptError, RequestFailedValidationError
from migration_service.models import ComparedAccount, Comparison, ReceiptException
from migration_service.origin import current_origin
from migration_service.services.audit.entries import AuditAction, record
from migration_service.services.reconciliation.comparisons import find_kept
from migration_service.services.reconciliation.verdict import Verdict, judge, list_problems
from migration_service.services.setup.suppliers import KnownSupplier
from migration_service.states import BatchMode, Problem

_OF_EXCEPTION = ("problem", "number", "external_account_number", "reason", "accepted_by")
#: The largest number of files in a receipt.
_MOST_FILES = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """What is known of a supplier's book or a batch, and what was accepted of it."""

    import_supplier: str
    batch_id: UUID | None
    #: None if nothing has been compared.
    comparison_id: UUID | None
    verdict: Verdict
    #: The files with their batches, lines and SHA-256 in hexadecimal. Of a wave, those of its supplier.
    files: Sequence[dict[str, Any]]
    exceptions: Sequence[ReceiptException]

    @property
    def open(self) -> dict[Problem, int]:
        """Return the problems that no exception covers, with their numbers."""
        return {
            problem: number
            for problem, number in self.verdict.problems.items()
            if not self._is_covered(problem, number)
        }

    def _is_covered(self, problem: Problem, number: int) -> bool:
        own = [it for it in self.exceptions if it.problem == problem]
        named = {it.external_account_number for it in own if it.external_account_number}
        return number <= max([len(named), *(it.number for it in own if not it.external_account_number)])

    def as_json(self) -> dict[str, Any]:
        """Return the receipt as values for JSON, by the names of the interface."""
        verdict = self.verdict
        return {
            "import_supplier": self.import_supplier,
            "batch_id": self.batch_id and str(self.batch_id),
            "comparison_id": self.comparison_id and str(self.comparison_id),
            "compared_at": verdict.compared_at and write_moment(verdict.compared_at),
            "clean": verdict.is_clean,
            "problems": list_problems(verdict.problems),
            "open": list_problems(self.open),
            "exceptions": [
                {name: getattr(it, name) for name in _OF_EXCEPTION}
                | {"created_at": write_moment(it.created_at)}
                for it in self.exceptions
            ],
            "sent": verdict.sent.sent,
            "created": verdict.sent.created,
            "compared": verdict.totals.compared,
            "totals": [
                {"measure": it.measure, "staged": str(it.staged), "created": str(it.created)}
                for it in verdict.totals.list_measures()
            ],
            "files": list(self.files),
        }


def read_receipt(
    session: Session, supplier: KnownSupplier, batch_id: UUID | None = None, *, verdict: Verdict | None = None
) -> Receipt:
    """Return the receipt of a supplier's book, or of a batch, as it is now. A verdict may be given."""
    comparison = find_kept(session, supplier.id, batch_id)
    exceptions = select(ReceiptException).order_by(ReceiptException.id)
    found = exceptions.where(ReceiptException.comparison_id == comparison.id) if comparison else None
    values = {"import_supplier_id": supplier.id, "batch_id": batch_id, "limit": _MOST_FILES}
    return Receipt(
        import_supplier=supplier.code,
        batch_id=batch_id,
        comparison_id=comparison.id if comparison else None,
        verdict=verdict or judge(session, supplier.id, batch_id, comparison=comparison),
        files=[dict(row) for row in session.execute(_FILES, values).mappings()],
        exceptions=session.scalars(found).all() if found is not None else (),
    )


def accept_exception(
    session: Session,
    supplier: KnownSupplier,
    batch_id: UUID | None,
    problem: Problem,
    *,
    reason: str,
    by: str | None = None,
    external_account_number: str | None = None,
) -> Receipt:
    """Accept a problem of a receipt, or one account that differs, and return the receipt.

    `by` names who does, if not the actor. Saying the same again changes nothing. Raise NoReceiptError if
    nothing has been compared, and RequestFailedValidationError if the receipt does not have this problem.
    """
    receipt = read_receipt(session, supplier, batch_id)
    if receipt.comparison_id is None:
        raise NoReceiptError
    number = receipt.verdict.problems.get(problem, 0)
    attr = "problem"
    if number and external_account_number is not None:
        attr = "external_account_number"
        differs = select(ComparedAccount.number).where(
            ComparedAccount.comparison_id == receipt.comparison_id,
            ComparedAccount.external_account_number == external_account_number,
        )
        number = int(problem is Problem.DIFFERING and session.scalar(differs) is not None)
    if not number:
        item = ErrorItem("invalid", "The receipt does not have this problem, or not this account.", attr)
        raise RequestFailedValidationError(item.detail, errors=[item])
    actor = current_origin().who or current_origin().kind.value
    said: dict[str, Any] = {
        "problem": problem,
        "number": number,
        "external_account_number": external_account_number,
        "reason": reason,
        "accepted_by": by or actor,
        "accepted_as": actor,
    }
    if any(all(getattr(it, name) == value for name, value in said.items()) for it in receipt.exceptions):
        return receipt
    session.add(ReceiptException(comparison_id=receipt.comparison_id, **said))
    session.flush()
    details = {
        "comparison_id": str(receipt.comparison_id),
        "batch_id": batch_id and str(batch_id),
        "problem": problem,
        "number": number,
        "account": external_account_number,
        "reason": reason,
        "by": by or actor,
    }
    action, owner = AuditAction.RECEIPT_EXCEPTION_ACCEPTED, supplier.organisation_id
    record(session, action, "import_supplier", supplier.code, organisation_id=owner, details=details)
    return read_receipt(session, supplier, batch_id)


def count_unproven(session: Session, supplier: KnownSupplier, numbers: Sequence[str], hours: float) -> int:
    """Return how many of these accounts no recent comparison has found equal, and no exception names."""
    values = {"import_supplier_id": supplier.id, "numbers": list(numbers), "hours": hours}
    return session.scalar(_COUNT_UNPROVEN, values) or 0


def list_named_exceptions(
    session: Session, supplier: KnownSupplier, numbers: Sequence[str]
) -> Sequence[ReceiptException]:
    """Return the exceptions that name one of these accounts."""
    own = select(ReceiptException).join(Comparison, Comparison.id == ReceiptException.comparison_id)
    named = one_of(ReceiptException.external_account_number.expression, numbers)
    return session.scalars(own.where(Comparison.import_supplier_id == supplier.id, named)).all()


_FILES = text(f"""
    SELECT CAST(id AS text) AS batch_id, file_name, encode(file_sha256, 'hex') AS sha256, lines FROM batch
    WHERE import_supplier_id = :import_supplier_id AND file_sha256 IS NOT NULL
      AND mode IN ('{BatchMode.STAGE}', '{BatchMode.IMPORT}')
      AND (:batch_id IS NULL OR id = :batch_id
           OR NOT EXISTS (SELECT FROM batch AS own WHERE own.id = :batch_id AND file_sha256 IS NOT NULL))
    ORDER BY id LIMIT :limit
""").bindparams(bindparam("batch_id", type_=Uuid))

_COUNT_UNPROVEN = text("""
    SELECT count(*) FROM account_import_process AS process
    WHERE process.import_supplier_id = :import_supplier_id
      AND process.external_account_number = ANY (CAST(:numbers AS text[]))
      AND (NOT EXISTS (
               SELECT FROM comparison LEFT JOIN batch_line AS line
                 ON line.batch_id = comparison.batch_id
                AND line.external_account_number = process.external_account_number
               WHERE comparison.import_supplier_id = :import_supplier_id
                 AND comparison.finished_at > clock_timestamp() - make_interval(hours => 1) * :hours
                 AND comparison.started_at >= process.account_created_at
                 AND (comparison.batch_id IS NULL OR line.batch_id IS NOT NULL))
           OR EXISTS (
               SELECT FROM comparison JOIN compared_account AS differing
                 ON differing.comparison_id = comparison.id
               WHERE comparison.import_supplier_id = :import_supplier_id
                 AND comparison.finished_at IS NOT NULL
                 AND differing.external_account_number = process.external_account_number
                 AND NOT EXISTS (
                     SELECT FROM receipt_exception AS accepted
                     WHERE accepted.comparison_id = comparison.id
                       AND accepted.external_account_number = differing.external_account_number)))
""")
