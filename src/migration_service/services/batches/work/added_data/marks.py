"""Recognition of lines that belong in a batch of another kind, by their members."""

from typing import Any

from migration_service.errors import LineKindMismatchError
from migration_service.schemas.account import AccountImportSchema
from migration_service.states import BatchKind

#: Members that account payloads share with other bodies.
_SHARED = {"import_supplier", "external_account_number", "statements"}

#: The members that identify a line of each kind, in order of precedence.
_MARKS = {
    BatchKind.ACCOUNTS: sorted(AccountImportSchema().fields.keys() - _SHARED),
    BatchKind.NOTES: ["notes"],
    BatchKind.TRANSACTIONS: ["transactions"],
    BatchKind.STATEMENTS: ["statements"],
    BatchKind.PAYMENT_INSTRUCTIONS: ["vendor", "reference", "type"],
}


def find_other_kind(payload: Any, kind: BatchKind) -> LineKindMismatchError | None:
    """Return an error if a line has members of another kind and none that are specific to its own kind."""
    if not isinstance(payload, dict):
        return None
    found = {it: mark for it, marks in _MARKS.items() for mark in reversed(marks) if mark in payload}
    if kind in found and not (kind is BatchKind.STATEMENTS and BatchKind.ACCOUNTS in found):
        return None
    other = next(iter(found), None)
    return LineKindMismatchError(found[other], other, kind) if other else None
