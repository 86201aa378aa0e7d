"""An unknown field is an error at the top level. Below it, it is one under the strict profile only."""

from typing import Any

import pytest

from migration_service.blueprints.description import added_data_examples as examples
from support.imported_account import ImportedAccount, codes_of


@pytest.mark.parametrize(
    ("path", "example", "items"),
    [
        ("/notes/create/", examples.NOTES, "notes"),
        ("/transactions/create/", examples.TRANSACTIONS, "transactions"),
        ("/historical-statements/create/", examples.STATEMENTS, "statements"),
        ("/payment-instruction/create/", examples.PAYMENT_INSTRUCTION, None),
    ],
)
def test_unknown_fields_are_errors_at_the_top_and_below_it_for_a_strict_supplier(
    account: ImportedAccount,
    strict_account: ImportedAccount,
    path: str,
    example: dict[str, Any],
    items: str | None,
) -> None:
    top = {**example, "surprise": 1, f"{items}.foo": 2}
    expected = [("surprise", "unknown_field"), (f'"{items}.foo"', "unknown_field")]
    for one in (account, strict_account):
        refused = one.supplier.post(path, top | one.pair)
        assert refused.status_code == 400
        assert codes_of(refused) == expected
    if items:
        body = {**example, items: [*example[items], {**example[items][0], "colour": "red"}]}
        strict = strict_account.supplier.post(path, body | strict_account.pair)
        assert strict.status_code == 400
        assert codes_of(strict) == [(f"{items}.{len(example[items])}.colour", "unknown_field")]
        assert account.supplier.post(path, body | account.pair).status_code == 201


@pytest.mark.parametrize(
    ("path", "example", "items"),
    [
        ("/notes/create/", examples.NOTES, "notes"),
        ("/transactions/create/", examples.TRANSACTIONS, "transactions"),
        ("/historical-statements/create/", examples.STATEMENTS, "statements"),
    ],
)
def test_unknown_fields_of_every_depth_are_listed_beside_the_other_errors_of_a_body(
    account: ImportedAccount,
    strict_account: ImportedAccount,
    path: str,
    example: dict[str, Any],
    items: str,
) -> None:
    body = {**example, "surprise": 1, items: [{**example[items][0], "colour": "red"}, 7]}
    errors = [(f"{items}.1", "not_a_dict"), ("surprise", "unknown_field")]
    nested = (f"{items}.0.colour", "unknown_field")
    lenient = account.supplier.post(path, body | account.pair)
    strict = strict_account.supplier.post(path, body | strict_account.pair)
    assert (lenient.status_code, strict.status_code) == (400, 400)
    assert sorted(codes_of(lenient)) == sorted(errors)
    assert sorted(codes_of(strict)) == sorted([*errors, nested])
    missing = body | strict_account.pair | {"external_account_number": "nobody"}
    assert nested in codes_of(strict_account.supplier.post(path, missing))
    no_supplier = body | strict_account.pair | {"import_supplier": "NOBODY"}
    assert nested not in codes_of(strict_account.supplier.post(path, no_supplier))
