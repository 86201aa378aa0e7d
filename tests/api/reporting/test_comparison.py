"""The comparison of two batches over HTTP: codes, accounts, and who may see them."""

import csv
import io
from typing import Any
from uuid import uuid4

import msgspec
from flask import Flask
from sqlalchemy import update
from sqlalchemy.orm import Session, sessionmaker

from migration_service.models import Batch
from support.batch_client import BatchClient
from support.supplier_client import SupplierClient


def _broken(account: dict[str, Any]) -> dict[str, Any]:
    return account | {"billing_postcode": 7}


def _book(batches: BatchClient, number: int) -> list[dict[str, Any]]:
    return [
        account | {"external_account_number": f"{index:03}"}
        for index, account in enumerate(batches.supplier.accounts(number))
    ]


def _compare(batches: BatchClient, before: str, after: str) -> dict[str, Any]:
    answer = batches.supplier.get(f"/batches/{before}/comparison/{after}/")
    assert answer.status_code == 200, answer.text
    body: dict[str, Any] = answer.json  # type: ignore[assignment]
    return body


def _accounts(batches: BatchClient, before: str, after: str, query: str = "") -> list[dict[str, Any]]:
    answer = batches.supplier.get(f"/batches/{before}/comparison/{after}/accounts/{query}")
    assert answer.status_code == 200, answer.text
    return [msgspec.json.decode(line) for line in answer.data.splitlines()]


def _two_rehearsals(batches: BatchClient) -> tuple[str, str]:
    """Return two batches: 0 stays sound, 1 breaks, 2 is mended, 3 stays broken, 4 goes, 5 comes; 6, 7 too."""
    book = _book(batches, 8)
    first = [
        *(book[0], book[1], _broken(book[2]), _broken(book[3]), _broken(book[4])),
        *(book[6], b"not JSON", book[0]),
    ]
    second = [
        *(book[5] | {"ledgers": "none"}, book[3] | {"ledgers": "none"}, book[2]),
        *(book[1] | {"customers": "nobody"}, book[0], book[7]),
    ]
    return tuple(batches.run(lines, "validate")["batch_id"] for lines in (first, second))


def test_accounts_are_newly_broken_mended_or_still_broken(batches: BatchClient) -> None:
    before, after = _two_rehearsals(batches)
    found = _compare(batches, before, after)
    assert (found["before"], found["after"]) == (before, after)
    counted = {name: number for name, number in found["accounts"].items() if not number}
    assert set(counted) == {"undecided", "unnumbered_after"}
    listed = _accounts(batches, before, after)
    by_number = {item["external_account_number"]: item for item in listed}
    assert {number: item["change"] for number, item in by_number.items()} == {
        "001": "NEWLY_BROKEN",
        "002": "MENDED",
        "003": "STILL_BROKEN",
        "004": "REMOVED_BROKEN",
        "005": "ADDED_BROKEN",
    }
    broken = by_number["001"]
    assert (broken["before_line"], broken["after_line"]) == (2, 4)
    assert broken["before_codes"] == []
    assert broken["after_codes"]
    assert [item["after_line"] for item in listed] == [1, 2, 4, 3, None]
    assert by_number["004"]["after_codes"] == []


def test_accounts_are_filtered_by_change_and_written_as_csv(batches: BatchClient) -> None:
    before, after = _two_rehearsals(batches)
    (mended,) = _accounts(batches, before, after, "?change=MENDED")
    assert mended["external_account_number"] == "002"
    answer = batches.supplier.get(
        f"/batches/{before}/comparison/{after}/accounts/?change=NEWLY_BROKEN", headers={"Accept": "text/csv"}
    )
    assert answer.mimetype == "text/csv"
    (row,) = csv.DictReader(io.StringIO(answer.text))
    assert (row["external_account_number"], row["before_line"], row["after_line"]) == ("001", "2", "4")
    assert row["after_codes"]
    refused = batches.supplier.get(f"/batches/{before}/comparison/{after}/accounts/?change=mended")
    assert (refused.status_code, (refused.json or {})["errors"][0]["attr"]) == (400, "change")


def test_batches_of_two_suppliers_are_not_compared(
    batches: BatchClient, app: Flask, sessions: sessionmaker[Session]
) -> None:
    own = batches.start([b"{}"], "validate")
    other = batches.start([b"{}"], "validate")
    with sessions.begin() as session:
        theirs = SupplierClient.create(app, sessions)
        foreign = BatchClient(theirs, batches.resources).start([b"{}"], "validate")
        supplier_id = session.get_one(Batch, foreign).import_supplier_id
        session.execute(update(Batch).where(Batch.id == other).values(import_supplier_id=supplier_id))
    answer = batches.supplier.get(f"/batches/{own}/comparison/{other}/")
    assert (answer.status_code, (answer.json or {})["code"]) == (400, "batches_not_comparable")
    for pair in ((own, foreign), (foreign, own), (own, uuid4()), (own, "..%2F1"), ("%00", own)):
        for ending in ("", "accounts/"):
            answer = batches.supplier.get(f"/batches/{pair[0]}/comparison/{pair[1]}/{ending}")
            assert answer.status_code == 404, pair
