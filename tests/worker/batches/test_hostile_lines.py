"""Harmful lines: impossible to store, or unexpected.

Each fails alone, and the others are processed.
"""

import pytest
from flask import Flask
from sqlalchemy.orm import Session, sessionmaker

from migration_service.tasks.resources import WorkerResources
from support.batch_client import BatchClient
from support.supplier_client import SupplierClient


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
