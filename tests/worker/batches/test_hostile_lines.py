"""Harmful lines: impossible to store, or unexpected.

Each fails alone, and the others are processed.
"""

from decimal import Decimal
from typing import Any

import msgspec
import pytest
from flask import Flask
from sqlalchemy.orm import Session, sessionmaker

from migration_service.tasks.resources import WorkerResources
from support.batch_client import BatchClient, counts
from support.supplier_client import SupplierClient

_MARK = b"\xef\xbb\xbf"


@pytest.mark.parametrize("mode", ["stage", "import"])
def test_a_byte_order_mark_before_a_line_changes_nothing(batches: BatchClient, mode: str) -> None:
    """Two versions of an account are in conflict, wherever a mark is, and however the number is written."""
    first, second = batches.supplier.accounts(2)
    escaped = msgspec.json.encode(first | {"billing_address2": "7"}).replace(b'"1', b'"\\u0031', 1)
    lines = [msgspec.json.encode(first), _MARK + b" " + escaped, _MARK + msgspec.json.encode(second)]
    report = batches.run([*lines, _MARK, _MARK * 2 + lines[2]], mode)
    results = batches.results(report["batch_id"])
    codes = [[item["code"] for item in line["errors"]] for line in results]
    assert codes == [
        ["conflicting_lines_in_batch"],
        ["conflicting_lines_in_batch", "duplicate_line_in_batch"],
        [],
        ["duplicate_line_in_batch"],
    ]
    assert [line["line_number"] for line in results] == [1, 2, 3, 5]


def test_reconciliation_compares_what_the_worker_understood(batches: BatchClient) -> None:
    """Marks, U+0000 in unknown members, large offsets, and what is stored in another form than it was."""
    account = batches.supplier.accounts(1)
    number = account[0]["external_account_number"]
    assert counts(batches.run(account)) == {"IMPORTED": 1}
    payment = {"transaction_id": "T", "transaction_date": "2026-10-01", "amount": "1.50", "type": "PAYMENT"}
    statement = {"statement_id": "S", "number": "S", "gross_amount": "100", "issued_date": "2026-01-01"}
    period = {"bill_period_from_date": "2025-12-01", "bill_period_to_date": "2025-12-31"}
    notes: list[dict[str, Any]] = [
        {"body": "a\r\nb", "colour": "red\0"},
        {"document_paths": [{"document_path": "/b.pdf"}, {"document_path": "Z.pdf"}]},
        {"body": "c", "created_at": "2025-01-01T20:00:00.25+23:59"},
        {"body": "d", "created_at": "0001-01-02T00:00:00Z", "document_paths": []},
    ]
    for kind, items in (("transactions", [payment]), ("statements", [statement | period]), ("notes", notes)):
        line = batches.line(number, **{kind: [item | {"x\0": "\0"} for item in items]})
        text = _MARK + msgspec.json.encode(line)
        assert counts(batches.run([text], kind=kind)) == {"ADDED": 1}
        assert counts(batches.run([text], kind=kind)) == {"ALREADY_ADDED": 1}
    found = batches.supplier.reconcile()
    assert (found["differences"], found["clean"]) == ([], True)
    measures = {it["measure"]: (it["staged"], it["created"]) for it in found["totals"]}
    assert measures["added notes"] == (4, 4)
    assert measures["added amount of PAYMENT"] == (Decimal("1.5"), Decimal("1.5"))


@pytest.mark.parametrize("profile", ["lenient", "strict"])
@pytest.mark.parametrize("mode", ["validate", "stage", "import"])
def test_text_that_the_database_cannot_store_fails_its_own_line_only(
    app: Flask, sessions: sessionmaker[Session], worker_resources: WorkerResources, mode: str, profile: str
) -> None:
    batches = BatchClient(SupplierClient.create(app, sessions, profile=profile), worker_resources)
    first, second, third = batches.supplier.accounts(3)
    second["un\0known"] = {"a\0b": "c\0d"}
    second["customers"] = [{"given_name": "\0", "fa\0mily": 1}]
    report = batches.run([first, second, third], mode)
    statuses = [line["status"] for line in batches.results(report["batch_id"])]
    assert statuses[1] == "FAILED"
    assert statuses[0] == statuses[2] != "FAILED"
    assert report["state"] == "COMPLETED"
