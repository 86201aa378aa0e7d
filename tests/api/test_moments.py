"""Every time in an answer has the form YYYY-MM-DDTHH:MM:SSZ (section 2.1)."""

import re
from datetime import UTC, datetime

from migration_payloads.moments import show_moment
from migration_service.tasks.resources import WorkerResources
from support.batch_client import BatchClient
from support.imported_account import ImportedAccount, codes_of

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


def test_a_time_of_an_extract_that_stands_for_no_day_is_refused(
    account: ImportedAccount, worker_resources: WorkerResources
) -> None:
    batches = BatchClient(account.supplier, worker_resources)
    (payload,) = account.supplier.accounts()
    for moment in (
        "0001-01-01T00:00:00Z",
        "1899-12-30T00:00:00Z",
        "1900-01-01T12:00:00Z",
        "1989-12-31T23:59:59Z",
    ):
        answer = account.supplier.stage(payload, extracted_at=moment)
        batch = batches.post(b"{}", mode="stage", extracted_at=moment)
        for refused in (answer, batch):
            assert (refused.status_code, codes_of(refused)) == (400, [("extracted_at", "out_of_range")])


def test_a_year_is_shown_with_four_digits() -> None:
    assert show_moment(datetime(800, 2, 3, 4, 5, 6, 7, tzinfo=UTC)) == "0800-02-03 04:05:06 UTC"
