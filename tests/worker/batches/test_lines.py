"""The results of the lines of a batch, in each mode and with every kind of error."""

from random import Random
from typing import Any

import pytest

from migration_service.states import SupplierStatus
from migration_service_local.samples import FAULTS, break_account
from support.batch_client import BatchClient, counts


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


@pytest.mark.parametrize(
    ("status", "state"), [(SupplierStatus.PAUSED, "WAITING"), (SupplierStatus.COMPLETE, "STOPPED")]
)
def test_a_batch_pauses_and_stops_with_its_supplier(
    batches: BatchClient, status: SupplierStatus, state: str
) -> None:
    batch_id = batches.start(batches.supplier.accounts(2))
    batches.supplier.set_status(status)
    batches.work()
    batches.work()  # the end is told once no worker has lines
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
