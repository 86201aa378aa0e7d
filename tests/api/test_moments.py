"""Every time in an answer has the form YYYY-MM-DDTHH:MM:SSZ (section 2.1)."""

import re

from migration_service.tasks.resources import WorkerResources
from support.batch_client import BatchClient
from support.imported_account import ImportedAccount

_MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", re.ASCII)
_ANY_MOMENT = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:[^\",\r\n]*", re.ASCII)


def _assert_moments(text: str) -> None:
    found = _ANY_MOMENT.findall(text)
    assert found
    assert [moment for moment in found if not _MOMENT.fullmatch(moment)] == []


def test_times_of_batches_have_the_documented_format(
    account: ImportedAccount, worker_resources: WorkerResources
) -> None:
    batches = BatchClient(account.supplier, worker_resources)
    batch_id = batches.start(account.supplier.accounts(), mode="stage")
    batches.work()
    for path in (f"/batches/{batch_id}/", "/batches/"):
        _assert_moments(account.supplier.get(path).text)


def test_times_of_the_id_map_have_the_documented_format(account: ImportedAccount) -> None:
    _assert_moments(account.supplier.get(f"/reconciliation/{account.supplier.code}/id-map/").text)
