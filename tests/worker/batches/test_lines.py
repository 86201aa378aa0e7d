"""The results of the lines of a batch, in each mode and with every kind of error."""

from copy import deepcopy
from random import Random
from typing import Any

import pytest
from sqlalchemy import func, select

from migration_service.models import Account, AccountImportProcess, ImportSupplier
from migration_service.states import SupplierStatus
from migration_service.tasks.resources import WorkerResources
from migration_service_local.samples import FAULTS, break_account
from support.batch_client import BatchClient, counts
from support.supplier_client import SupplierClient


@pytest.fixture
def batches(supplier: SupplierClient, worker_resources: WorkerResources) -> BatchClient:
    return BatchClient(supplier, worker_resources)


def _count(batches: BatchClient, model: type[Account] | type[AccountImportProcess]) -> int:
    with batches.supplier.Session() as session:
        statement = (
            select(func.count())
            .select_from(model)
            .join(ImportSupplier, ImportSupplier.id == model.import_supplier_id)
            .where(ImportSupplier.code == batches.supplier.code)
        )
        return session.scalar(statement) or 0


def _codes(line: dict[str, Any]) -> list[str]:
    return [item["code"] for item in line["errors"]]


@pytest.mark.parametrize("mode", ["validate", "dry-run", "import"])
def test_every_known_fault_is_reported_with_its_code_and_affects_no_other_line(
    batches: BatchClient, mode: str
) -> None:
    accounts = [it for it in batches.supplier.accounts(len(FAULTS) + 20) if "customers" in it]
    rng = Random(1)
    broken = [break_account(account, fault, rng) for account, fault in zip(accounts, FAULTS, strict=False)]
    sound = accounts[len(FAULTS) :]
    report = batches.run([*broken, *sound], mode)
    good = {"validate": "VALID", "dry-run": "WOULD_IMPORT", "import": "IMPORTED"}[mode]
    assert counts(report) == {good: len(sound), "FAILED": len(FAULTS)}
    failed = batches.results(report["batch_id"], "?status=FAILED")
    for line, fault in zip(failed, FAULTS.values(), strict=True):
        assert fault.code in _codes(line)
        assert fault.code in report["error_counts"]


def test_an_account_that_a_batch_staged_is_processed_by_a_request(batches: BatchClient) -> None:
    accounts = batches.supplier.accounts(3)
    assert counts(batches.run(accounts, "stage")) == {"STAGED": 3}
    assert _count(batches, Account) == 0
    assert batches.supplier.process(accounts[0]["external_account_number"]).status_code == 202
    assert batches.supplier.stage(accounts[1]).status_code == 200


def test_the_first_of_two_lines_of_an_account_is_used_even_if_it_fails(batches: BatchClient) -> None:
    (account,) = batches.supplier.accounts()
    broken = deepcopy(account)
    del broken["ledgers"][0]["ledger_code"]
    report = batches.run([broken, broken])
    assert [_codes(line) for line in batches.results(report["batch_id"])] == [
        ["required"],
        ["duplicate_line_in_batch"],
    ]


@pytest.mark.parametrize(
    ("status", "state"), [(SupplierStatus.PAUSED, "WAITING"), (SupplierStatus.COMPLETE, "STOPPED")]
)
def test_a_batch_pauses_and_stops_with_its_supplier(
    batches: BatchClient, status: SupplierStatus, state: str
) -> None:
    batch_id = batches.start(batches.supplier.accounts(2))
    batches.supplier.set_status(status)
    batches.work()
    report = batches.get(batch_id)
    assert (report["state"], counts(report)) == (state, {"PENDING": 2})
    assert report["reason"] == f"import_supplier_{status.lower()}"
    assert (report["finished_at"] is None) == (state == "WAITING"), "only a batch that is over has an end"
    batches.supplier.set_status(SupplierStatus.ONGOING)
    if state == "STOPPED":
        assert batches.change(batch_id, "resume").status_code == 200
        assert batches.get(batch_id)["finished_at"] is None
    batches.work()
    report = batches.get(batch_id)
    assert (report["state"], report["reason"], counts(report)) == ("COMPLETED", None, {"IMPORTED": 2})
