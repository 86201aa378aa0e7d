"""Sections 4.4 to 4.7: numbers in paths, and long lists."""

from unittest.mock import patch
from urllib.parse import quote

import pytest

from support.factories import json_of
from support.supplier_client import SupplierClient


@pytest.mark.parametrize(
    "number",
    [
        *("with space", "ümläut", "100%", "a?b#c", "..", "x" * 128, "a+b", "%2F"),
        *("a/b", "a//b", "77/", "77//", "/77", "/", "//"),
    ],
)
@pytest.mark.parametrize("end", ["/", ""])
def test_any_printable_number_works_in_every_path(supplier: SupplierClient, number: str, end: str) -> None:
    if number.endswith("/"):
        end = "/"  # tests/e2e/test_proxy.py
    (account,) = supplier.accounts()
    account["external_account_number"] = number
    assert supplier.stage(account).status_code == 201
    path = f"{supplier.code}/{quote(number, safe='')}{end}"
    answer = supplier.get(f"/account-transfer-status/{path}")
    assert answer.json == {"status": "UNKNOWN", "service_account_number": ""}
    assert json_of(supplier.get(f"/accounts/{path}"))["external_account_number"] == number
    assert supplier.get(f"/account-import-attempts/{path}").json == []


def test_a_long_list_is_streamed_completely(supplier: SupplierClient) -> None:
    for account in supplier.accounts(5):
        supplier.stage(account)
    path = f"/all-account-import-processes/{supplier.code}/"
    whole = supplier.read(path)
    assert len(whole) == 5
    for piece in (1, 2, 4, 5, 6):
        with patch("migration_service.blueprints.status.PIECE", piece):
            assert supplier.read(path) == whole
