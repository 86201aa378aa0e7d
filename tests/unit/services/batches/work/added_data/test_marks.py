"""Lines in a batch of another kind are recognised by their members."""

from typing import Any

import pytest

from migration_service.services.batches.work.lines import find_other_kind
from migration_service.states import BatchKind

_PAYLOADS: dict[BatchKind, dict[str, Any]] = {
    BatchKind.ACCOUNTS: {"billing_address1": "Singel 1", "ledgers": [], "statements": []},
    BatchKind.NOTES: {"notes": []},
    BatchKind.TRANSACTIONS: {"transactions": []},
    BatchKind.STATEMENTS: {"statements": []},
    BatchKind.PAYMENT_INSTRUCTIONS: {"vendor": "V", "reference": "R", "type": "CARD"},
}
#: The member of each that the error names.
_FIRST_MARKS = {
    BatchKind.ACCOUNTS: "billing_address1",
    BatchKind.NOTES: "notes",
    BatchKind.TRANSACTIONS: "transactions",
    BatchKind.STATEMENTS: "statements",
    BatchKind.PAYMENT_INSTRUCTIONS: "vendor",
}
_PAIR = {"import_supplier": "S", "external_account_number": "1"}


@pytest.mark.parametrize("kind", BatchKind)
@pytest.mark.parametrize("other", BatchKind)
def test_a_line_of_another_kind_is_told_apart_from_those_of_its_own(
    kind: BatchKind, other: BatchKind
) -> None:
    error = find_other_kind(_PAIR | _PAYLOADS[other], kind)
    if other is kind:
        assert error is None
    else:
        assert error is not None
        assert error.code == "line_kind_mismatch"
        assert error.detail.endswith(f" is of kind {other}, but the batch is of kind {kind}.")
        assert [item.attr for item in error.errors] == [_FIRST_MARKS[other]]


def test_a_line_with_members_of_its_own_kind_and_of_another_is_of_its_own() -> None:
    assert find_other_kind({"notes": [], "transactions": []}, BatchKind.TRANSACTIONS) is None
    assert find_other_kind({"notes": [], "statements": []}, BatchKind.STATEMENTS) is None


@pytest.mark.parametrize("payload", [None, [], "notes", 7, {}, _PAIR, {"unknown": 1}])
def test_a_line_without_any_mark_is_of_no_other_kind(payload: Any) -> None:
    assert find_other_kind(payload, BatchKind.NOTES) is None
