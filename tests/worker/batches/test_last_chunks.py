"""The chunks at the end of a batch are smaller, and lose nothing by it."""

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from uuid import UUID

import pytest
from sqlalchemy import delete, func, select, update

from migration_service.db.base import new_id
from migration_service.models import Account, AccountImportProcess, BatchChunk
from migration_service.services.batches.intake.options import BatchOrder
from migration_service.services.batches.intake.upload import start_batch
from migration_service.services.batches.work.chunks import claim_chunk
from migration_service.services.batches.work.execution import perform_chunk
from migration_service.services.batches.work.feed import recover_chunks
from migration_service.services.setup.suppliers import get_import_supplier
from migration_service.states import BatchMode, BatchSource
from migration_service.tasks.resources import WorkerResources
from support.batch_client import BatchClient, counts
from support.supplier_client import SupplierClient


@pytest.fixture
def batches(supplier: SupplierClient, worker_resources: WorkerResources) -> BatchClient:
    with worker_resources.Session.begin() as session:
        session.execute(delete(BatchChunk))
    worker_resources.redis.delete("migration:slots", "migration:slots:owners")
    return BatchClient(supplier, worker_resources)


def _sizes(batches: BatchClient, batch_id: str) -> list[int]:
    with batches.resources.Session() as session:
        chunks = session.execute(
            select(BatchChunk.first_line, BatchChunk.last_line)
            .where(BatchChunk.batch_id == UUID(batch_id))
            .order_by(BatchChunk.first_line)
        ).all()
    return [last - first + 1 for first, last in chunks]


def _results(batches: BatchClient, batch_id: str) -> dict[int, tuple[str, str]]:
    lines = batches.results(batch_id)
    found = {line["line_number"]: (line["status"], line["service_account_number"]) for line in lines}
    assert len(found) == len(lines)
    return found


def test_several_workers_share_the_end_of_a_batch_and_one_is_killed(batches: BatchClient) -> None:
    lines = 120
    batch_id = batches.start(batches.supplier.accounts(lines))
    assert _sizes(batches, batch_id) == [50, 50, 20]
    first, second, last = batches.dispatch()
    with batches.resources.Session.begin() as session:
        assert claim_chunk(session, last, [new_id() for _ in range(20)])  # and then it was killed

    perform = partial(perform_chunk, batches.resources.Session, batches.resources.slots, reserve=50)
    with ThreadPoolExecutor(2) as workers:
        assert list(workers.map(lambda key: perform(key=key), (first, second))) == [True, True]
    assert counts(batches.get(batch_id)) == {"IMPORTED": 100, "PENDING": 20}

    with batches.resources.Session.begin() as session:
        old = func.now() - func.make_interval(0, 0, 0, 0, 0, 1)
        session.execute(update(BatchChunk).values(dispatched_at=old))
        assert len(recover_chunks(session)) == 1
    batches.work()
    report = batches.get(batch_id)
    assert (report["state"], counts(report)) == ("COMPLETED", {"IMPORTED": lines})
    results = _results(batches, batch_id)
    assert sorted(results) == list(range(1, lines + 1))
    with batches.resources.Session() as session:
        numbers = session.scalars(
            select(Account.service_account_number).where(
                Account.import_supplier_id
                == get_import_supplier(session, batches.supplier.code, organisation_id=None).id
            )
        ).all()
    assert sorted(number for _, number in results.values()) == sorted(numbers)


def test_staged_accounts_are_divided_as_those_of_a_file(batches: BatchClient) -> None:
    staged = batches.run(batches.supplier.accounts(110), "stage")
    assert _sizes(batches, staged["batch_id"]) == [50, 50, 10]
    answer = batches.post(None, "dry-run", source="pending")
    batch_id = str((answer.json or {})["batch_id"])
    assert _sizes(batches, batch_id) == [50, 50, 10]
    batches.work()
    assert counts(batches.get(batch_id)) == {"WOULD_IMPORT": 110}


@pytest.mark.parametrize("is_wave", [False, True])
def test_chunks_are_full_if_a_limit_counts_them(batches: BatchClient, is_wave: bool) -> None:
    batches.run(batches.supplier.accounts(110), "stage")
    with batches.resources.Session.begin() as session:
        supplier = get_import_supplier(session, batches.supplier.code, organisation_id=None)
        own = AccountImportProcess.import_supplier_id == supplier.id
        order = BatchOrder(
            mode=BatchMode.IMPORT,
            source=BatchSource.PENDING,
            operations_team_name=batches.supplier.team,
            lines_per_minute=600,
            wave_processes=session.scalars(select(AccountImportProcess.id).where(own)).all()
            if is_wave
            else None,
        )
        batch_id = start_batch(session, supplier, order)
    assert _sizes(batches, str(batch_id)) == [100, 10]
