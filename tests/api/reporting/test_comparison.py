"""The comparison of two batches over HTTP: codes, accounts, and who may see them."""

import csv
import io
from typing import Any
from uuid import uuid4

import msgspec
import pytest
from sqlalchemy import update

from migration_service.models import Batch
from support.batch_client import BatchClient
from support.factories import json_of
from support.imported_account import codes_of
from support.supplier_client import SupplierClient


@pytest.fixture
def path(batches: BatchClient) -> str:
    """The path of a comparison: of three accounts the second broke, and the third was mended."""
    sound, broke, mended = batches.supplier.accounts(3)
    before = batches.run([sound, broke, mended | {"billing_postcode": 7}], "validate")["batch_id"]
    after = batches.run([mended, broke | {"customers": "nobody"}, sound], "validate")["batch_id"]
    return f"/batches/{before}/comparison/{after}/"


def test_accounts_and_codes_are_compared(batches: BatchClient, path: str) -> None:
    found = json_of(batches.supplier.get(path))
    _, before, _, after, _ = path.removeprefix("/").split("/")
    assert (found["before"], found["after"]) == (before, after)
    counted = {name: number for name, number in found["accounts"].items() if number}
    assert counted == {"newly_broken": 1, "mended": 1, "passed": 1}
    assert {(it["code"], it["change"]) for it in found["codes"] if it["severity"] == "error"} == {
        ("invalid", "WENT"),
        ("not_a_list", "CAME"),
    }


def test_accounts_are_filtered_by_change_and_written_as_csv(batches: BatchClient, path: str) -> None:
    _sound, broke, mended = (it["external_account_number"] for it in batches.supplier.accounts(3))

    def accounts(query: str, **headers: str) -> Any:
        return batches.supplier.get(f"{path}accounts/{query}", headers=headers)

    listed = [msgspec.json.decode(line) for line in accounts("").data.splitlines()]
    assert [(it["external_account_number"], it["before_line"], it["after_line"]) for it in listed] == [
        (broke, 2, 2),
        (mended, 3, 1),
    ]
    assert (listed[1]["before_codes"], listed[1]["after_codes"]) == (["invalid"], [])
    answer = accounts("?change=NEWLY_BROKEN", Accept="text/csv")
    assert answer.mimetype == "text/csv"
    (row,) = csv.DictReader(io.StringIO(answer.text))
    assert (row["external_account_number"], row["after_codes"]) == (broke, "not_a_list")
    assert codes_of(accounts("?change=mended")) == [("change", "invalid_choice")]


def test_batches_of_two_suppliers_are_not_compared(batches: BatchClient, another: SupplierClient) -> None:
    own, other = (batches.start([b"{}"], "validate") for _ in range(2))
    foreign = BatchClient(another, batches.resources).start([b"{}"], "validate")
    with batches.supplier.Session.begin() as session:
        supplier_id = session.get_one(Batch, foreign).import_supplier_id
        session.execute(update(Batch).where(Batch.id == other).values(import_supplier_id=supplier_id))
    answer = batches.supplier.get(f"/batches/{own}/comparison/{other}/")
    assert (answer.status_code, json_of(answer)["code"]) == (400, "batches_not_comparable")
    for pair in ((own, foreign), (foreign, own), (own, uuid4()), (own, "..%2F1")):
        for ending in ("", "accounts/"):
            answer = batches.supplier.get(f"/batches/{pair[0]}/comparison/{pair[1]}/{ending}")
            assert answer.status_code == 404, pair
