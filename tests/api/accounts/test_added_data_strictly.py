"""Under the strict profile a field that the interface does not have is an error, in every addition."""

from typing import Any

import pytest

from imported_account import ImportedAccount, codes_of
from migration_service.blueprints import added_data_examples as examples


@pytest.mark.parametrize(
    ("path", "example", "items"),
    [
        ("/notes/create/", examples.NOTES, "notes"),
        ("/transactions/create/", examples.TRANSACTIONS, "transactions"),
        ("/historical-statements/create/", examples.STATEMENTS, "statements"),
        ("/payment-instruction/create/", examples.PAYMENT_INSTRUCTION, None),
    ],
)
def test_unknown_fields_are_errors_for_a_strict_supplier_and_dropped_for_others(
    account: ImportedAccount,
    strict_account: ImportedAccount,
    path: str,
    example: dict[str, Any],
    items: str | None,
) -> None:
    body = {**example, "surprise": 1}
    expected = [("surprise", "unknown_field")]
    if items:
        body[items] = [*example[items], {**example[items][0], "colour": "red"}]
        expected.insert(0, (f"{items}.{len(example[items])}.colour", "unknown_field"))
    strict = strict_account.supplier.post(path, body | strict_account.pair)
    assert strict.status_code == 400
    assert sorted(codes_of(strict)) == sorted(expected)
    lenient = account.supplier.post(path, body | account.pair)
    assert lenient.status_code == 201 or codes_of(lenient) == [("vendor", "payment_vendor_not_found")]
