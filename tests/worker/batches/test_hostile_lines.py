"""Harmful lines: impossible to store, or unexpected.

Each fails alone, and the others are processed.
"""

from typing import Any
from unittest.mock import patch

import pytest
from flask import Flask
from sqlalchemy import delete
from sqlalchemy.orm import Session, sessionmaker

from migration_service.models import BatchChunk
from migration_service.services.batches.work import processor_time
from migration_service.services.batches.work.accounts import AccountWork
from migration_service.tasks.resources import WorkerResources
from support.batch_client import BatchClient, counts
from support.supplier_client import SupplierClient

MARKED = "Xaveria-Marked"


@pytest.fixture
def batches(supplier: SupplierClient, worker_resources: WorkerResources) -> BatchClient:
    with worker_resources.Session.begin() as session:
        session.execute(delete(BatchChunk))
    return BatchClient(supplier, worker_resources)


def _codes(batches: BatchClient, batch_id: str) -> list[list[str]]:
    return [[item["code"] for item in line["errors"] or ()] for line in batches.results(batch_id)]


def test_a_worker_writes_outcomes_before_it_validates_further_lines_for_long(batches: BatchClient) -> None:
    pieces: list[int] = []
    work = AccountWork.work

    def watched(*arguments: Any) -> Any:
        results = work(*arguments)
        pieces.append(len(results))
        return results

    with (
        patch.object(processor_time, "PIECE_SECONDS", 0.0),
        patch.object(AccountWork, "work", watched),
    ):
        report = batches.run(batches.supplier.accounts(4), "import")
    assert pieces == [1, 1, 1, 1]
    assert counts(report) == {"IMPORTED": 4}


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


@pytest.mark.parametrize("mode", ["validate", "stage", "import"])
def test_an_unknown_member_with_nul_is_a_warning_for_its_line(batches: BatchClient, mode: str) -> None:
    accounts = batches.supplier.accounts(2)
    accounts[0]["un\0known"] = 1
    report = batches.run(accounts, mode)
    assert report["state"] == "COMPLETED"
    statuses = [line["status"] for line in batches.results(report["batch_id"])]
    assert statuses[1] != "FAILED"
