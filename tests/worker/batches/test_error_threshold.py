"""Batches that are paused after too many errors, and how far workers get after that."""

import queue
import threading
from typing import Any
from unittest.mock import patch
from uuid import UUID

from migration_service.db.base import new_id
from migration_service.services.batches.intake import upload as batch_upload
from migration_service.services.batches.work.chunks import ChunkKey, claim_chunk, read_chunk, work_on_chunk
from migration_service.services.batches.work.execution import perform_chunk
from support.audit import audited
from support.batch_client import BatchClient, counts

BROKEN = b"{"
REASON = "error_threshold_reached"


def _state(report: dict[str, Any]) -> tuple[str, str | None]:
    return report["state"], report["reason"]


def test_an_import_whose_lines_are_all_broken_from_some_line_on_is_paused(batches: BatchClient) -> None:
    report = batches.run([*batches.supplier.accounts(250), *[BROKEN] * 650])
    assert _state(report) == ("PAUSED", REASON)
    # 50 of the first 300 lines, 150 of the lines 201 to 400.
    assert counts(report) == {"IMPORTED": 250, "FAILED": 150, "PENDING": 500}
    expected = {"stop_after_errors": "50%", "stop_window_lines": 200, "lines": 200, "errors": 150}
    assert report["brake"].items() >= expected.items()


def test_who_resumes_has_seen_the_errors_up_to_now(batches: BatchClient) -> None:
    batch_id = batches.start([BROKEN] * 500, "validate", stop_after_errors="100")
    for failed in (100, 200):
        batches.work()
        report = batches.get(batch_id)
        assert (_state(report), counts(report)["FAILED"]) == (("PAUSED", REASON), failed)
        assert batches.change(batch_id, "resume").status_code == 200
    assert batches.get(batch_id)["brake"]["errors"] == 0
    assert batches.supplier.post(f"/batches/{batch_id}/brake/?stop_after_errors=off").status_code == 200
    batches.work()
    assert batches.get(batch_id)["state"] == "COMPLETED"


def test_a_worker_finishes_what_it_has_and_none_begins_anything(batches: BatchClient) -> None:
    batch_id = batches.start([BROKEN] * 500, "validate", stop_after_errors="1")
    one, other, third, *_ = batches.dispatch()
    sessions = batches.resources.Session
    attempts = {key: [new_id() for _ in range(100)] for key in (one, other)}
    for key in (one, other):  # both have begun before the first error
        with sessions.begin() as session:
            assert read_chunk(session, key) is not None
        with sessions.begin() as session:
            assert claim_chunk(session, key, attempts[key])
    with sessions.begin() as session:
        assert work_on_chunk(session, one, attempts[one]) == 0
    assert batches.get(batch_id)["state"] == "RUNNING"
    with sessions.begin() as session:
        assert work_on_chunk(session, other, attempts[other]) == 0
    with sessions.begin() as session:
        assert read_chunk(session, third) is None
    report = batches.get(batch_id)
    assert (_state(report), counts(report)) == (("PAUSED", REASON), {"FAILED": 200, "PENDING": 300})
    (entry,) = audited(sessions, subject=batch_id)
    assert (entry.action, entry.actor_kind) == ("batch.paused", "service")
    assert (entry.details or {}).items() >= {"reason": REASON, "lines": 200, "errors": 200}.items()


def test_four_workers_do_at_most_a_chunk_each_after_the_threshold(batches: BatchClient) -> None:
    """The bound of docs/limits.md: the lines of a chunk for each worker process."""
    good, workers, threshold = 300, 4, 50
    lines = [*batches.supplier.accounts(good), *[BROKEN] * 4_000]
    batch_id = UUID(batches.start(lines, "validate", stop_after_errors=str(threshold)))
    todo: queue.SimpleQueue[ChunkKey] = queue.SimpleQueue()
    for first_line in range(1, len(lines) + 1, batch_upload.CHUNK_LINES):
        todo.put(ChunkKey(batch_id, first_line))

    def work() -> None:
        while not todo.empty():
            perform_chunk(batches.resources.Session, batches.resources.slots, todo.get(), reserve=50)

    threads = [threading.Thread(target=work) for _ in range(workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    report = batches.get(str(batch_id))
    assert _state(report) == ("PAUSED", REASON)
    assert threshold <= counts(report)["FAILED"] <= threshold + workers * batch_upload.CHUNK_LINES


def test_a_book_that_lost_its_ledgers_is_paused_and_each_of_its_lines_counts_once(
    batches: BatchClient,
) -> None:
    accounts = batches.supplier.accounts(60)
    for account in accounts[20:]:
        del account["ledgers"]
    accounts[20] |= {"customers": 7}  # it fails, and has the warning
    accounts[21] |= {"import_supplier": "ANOTHER"}  # it fails for what does not count, and has the warning
    given = {
        "stop_after_errors": "10",
        "stop_count_warnings": "ledger_missing, meter_point_missing",
        "stop_ignore_codes": "import_supplier_mismatch",
    }
    with patch.object(batch_upload, "CHUNK_LINES", 5):
        batch_id = batches.start(accounts, **given)
    report = _work_until_paused(batches, batch_id)
    assert counts(report) == {"IMPORTED": 28, "FAILED": 2, "PENDING": 30}
    assert report["warning_counts"] == {"ledger_missing": 10}
    assert report["brake"]["codes"] == {"ledger_missing": 10, "not_a_list": 1}
    assert (report["brake"]["lines"], report["brake"]["errors"]) == (30, 10)

    assert batches.change(batch_id, "resume").status_code == 200
    _lose_a_chunk(batches)
    report = _work_until_paused(batches, batch_id)
    assert counts(report) == {"IMPORTED": 38, "FAILED": 2, "PENDING": 20}
    assert (report["brake"]["lines"], report["brake"]["errors"]) == (10, 10)


def _work_until_paused(batches: BatchClient, batch_id: str) -> dict[str, Any]:
    batches.work()
    report = batches.get(batch_id)
    assert _state(report) == ("PAUSED", REASON)
    return report


def _lose_a_chunk(batches: BatchClient) -> None:
    """A worker is killed before it commits what it has done with a chunk."""
    key = batches.dispatch()[0]
    attempts = [new_id() for _ in range(5)]
    with batches.resources.Session() as session:
        assert claim_chunk(session, key, attempts)
        assert work_on_chunk(session, key, attempts) == 0
        session.rollback()
