"""What became of each total of a book: given, in the file, refused, staged, skipped, created."""

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import update

from migration_service.models import Batch
from migration_service.services.reconciliation.comparisons import start_comparison, wait_for_comparison
from migration_service.services.reconciliation.verdict import judge
from migration_service.services.reporting.retention import remove_batch_lines
from support.batch_client import BatchClient


def test_once_the_lines_were_removed_nothing_is_said_to_be_unaccounted_for(batches: BatchClient) -> None:
    batch_id = batches.run([*batches.supplier.accounts(1), b"{"])["batch_id"]
    with batches.supplier.Session.begin() as session:
        mine = update(Batch).where(Batch.id == UUID(batch_id))
        session.execute(mine.values(finished_at=datetime(2020, 1, 1, tzinfo=UTC)))
        remove_batch_lines(session, after_days=30)
    sessions = batches.supplier.Session
    with sessions.begin() as session:
        supplier = batches.supplier.known()
        comparison_id = start_comparison(session, supplier, UUID(batch_id))[0].id
    assert wait_for_comparison(sessions, comparison_id)
    with sessions() as session:
        book = judge(session, supplier.id, UUID(batch_id)).book
    assert book is not None
    assert {(it.file is None, it.unaccounted) for it in book.totals} == {(False, None)}
    assert next(it.file for it in book.totals if it.measure == "accounts") == 2


@pytest.mark.usefixtures("neighbour")
def test_a_file_is_superseded_by_later_ones_with_each_of_its_accounts(batches: BatchClient) -> None:
    supplier = batches.supplier
    first, second, third = supplier.accounts(3)

    def list_superseded() -> list[bool]:
        return [it["is_superseded"] for it in reversed(batches.supplier.reconcile()["book"]["files"])]

    def send(*accounts: Any, mode: str = "stage") -> UUID:
        batch_id = batches.run(accounts, mode)["batch_id"]
        supplier.put(f"/batches/{batch_id}/control-totals/", {"accounts": 9})
        return UUID(batch_id)

    send(first, mode="validate")
    supplier.stage(third)
    batches.run([batches.line("1")], kind="notes")
    assert batches.post(None, source="pending").status_code == 202
    assert list_superseded() == [False], "nothing else is a file of accounts"
    sent = send(first, second)
    assert batches.post(None, source="pending").status_code == 202
    send(first, second, mode="validate")
    send(first)
    assert list_superseded() == [True, False, True, False], "one account is only in a file to validate"
    send(second)
    assert list_superseded() == [True, True, True, False, False]
    with supplier.Session.begin() as session:
        session.execute(update(Batch).where(Batch.id == sent).values(lines_removed_at=datetime.now(UTC)))
    assert list_superseded() == [True, False, True, False, False], "nobody knows what was in it"
