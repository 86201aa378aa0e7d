"""The members by which a line of each kind is recognised, for lines that are in a batch of another kind."""

from typing import Any

from migration_service.errors import LineKindMismatchError
from migration_service.schemas.account import AccountImportSchema
from migration_service.states import BatchKind

#: Those that an account payload has in common with other bodies.
_SHARED = {"import_supplier", "external_account_number", "statements"}

#: The members by which a line of each kind is recognised, in this order.
_MARKS = {
    BatchKind.ACCOUNTS: sorted(AccountImportSchema().fields.keys() - _SHARED),
    BatchKind.NOTES: ["notes"],
    BatchKind.TRANSACTIONS: ["transactions"],
    BatchKind.STATEMENTS: ["statements"],
    BatchKind.PAYMENT_INSTRUCTIONS: ["vendor", "reference", "type"],
}


def find_other_kind(payload: Any, kind: BatchKind) -> LineKindMismatchError | None:
    """Return an error if a line has the members of another kind, and none that only its own kind has."""
    if not isinstance(payload, dict):
        return None
    found = {it: mark for it, marks in _MARKS.items() for mark in reversed(marks) if mark in payload}
    if kind in found and not (kind is BatchKind.STATEMENTS and BatchKind.ACCOUNTS in found):
        return None
    other = next(iter(found), None)
    return LineKindMismatchError(found[other], other, kind) if other else None
