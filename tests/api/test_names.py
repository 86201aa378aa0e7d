"""The names in a path are checked before anything is looked up, and after the token."""

import pytest

from support.imported_account import codes_of
from support.supplier_client import SupplierClient


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("%00", "invalid_characters"),
        ("%E2%80%AE1", "bidirectional_characters"),
        ("%201", "outer_spaces"),
        ("e%CC%81", "not_normalised"),
        ("1" * 129, "max_length"),
    ],
)
@pytest.mark.parametrize(
    ("path", "attr"),
    [
        ("/account-transfer-status/{supplier}/{name}/", "external_account_number"),
        ("/account-transfer-status/{name}/1/", "import_supplier_code"),
        ("/reconciliation/{name}/id-map/", "import_supplier_code"),
    ],
)
def test_a_name_in_a_path_that_cannot_exist_is_refused(
    supplier: SupplierClient, path: str, attr: str, name: str, code: str
) -> None:
    answer = supplier.get(path.format(supplier=supplier.code, name=name))
    assert answer.status_code == 400
    assert codes_of(answer) == [(attr, code)]
