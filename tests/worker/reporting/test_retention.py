"""The periodic removal with the real settings, at the boundaries of the retention times."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import pytest
from celery import current_app
from sqlalchemy import ColumnElement, func, or_, select, text, update

from migration_service.celery_app import create_celery
from migration_service.config import Settings
from migration_service.models import AccountImportProcess, ApiKey, Batch, BatchLine, TokenSession
from migration_service.services.access.api_keys import find_prefix
from migration_service.services.reporting import retention
from migration_service.tasks import maintenance
from migration_service.tasks.maintenance import remove_old_data
from migration_service.tasks.resources import WorkerResources
from support.batch_client import BatchClient
from support.factories import close_celery
from support.supplier_client import SupplierClient

Remove = Callable[..., None]


@pytest.fixture
def remove(migrated: Settings) -> Iterator[Remove]:
    """Run the task in a worker with these retention times in days."""
    before = current_app._get_current_object()  # type: ignore[attr-defined]
    made = []

    def run(*, batch_days: int = 30, payload_days: int = 0) -> None:
        settings = replace(
            migrated,
            batch_retention_days=batch_days,
            payload_retention_days=payload_days,
            staged_retention_days=0,
        )
        made.append(create_celery(settings))
        remove_old_data()

    yield run
    for celery in made:
        close_celery(celery)
    before.set_current()


@dataclass(frozen=True, slots=True)
class Book:
    """Two accounts that a batch created."""

    client: BatchClient
    batch_id: UUID
    numbers: list[str]

    @classmethod
    def create(cls, client: BatchClient) -> "Book":
        payloads = client.supplier.accounts(2)
        payloads[0]["billing_postcode"] = "nowhere"  # a warning, which is kept with the payload
        report = client.run(payloads)
        assert report["state"] == "COMPLETED"
        numbers = [str(payload["external_account_number"]) for payload in payloads]
        return cls(client, UUID(report["batch_id"]), numbers)

    def grow_old(self, age: str) -> None:
        """Let the batch have ended, and its accounts have been created, this long ago."""
        before = func.now() - text(f"interval '{age}'")
        with self.client.supplier.Session.begin() as session:
            session.execute(update(Batch).where(Batch.id == self.batch_id).values(finished_at=before))
            for number in self.numbers:
                process = self.client.supplier.process_of(number)
                session.execute(update(AccountImportProcess).where(process).values(account_created_at=before))

    @property
    def lines(self) -> int:
        with self.client.supplier.Session() as session:
            own = select(func.count()).select_from(BatchLine).where(BatchLine.batch_id == self.batch_id)
            return session.scalar(own) or 0

    @property
    def payloads(self) -> int:
        return self._count(AccountImportProcess.payload.is_not(None))

    @property
    def warnings(self) -> int:
        return self._count(AccountImportProcess.warnings.is_not(None))

    def _count(self, condition: ColumnElement[bool]) -> int:
        own = or_(*(self.client.supplier.process_of(number) for number in self.numbers))
        with self.client.supplier.Session() as session:
            counted = select(func.count()).select_from(AccountImportProcess).where(own, condition)
            return session.scalar(counted) or 0


@pytest.fixture
def book(supplier: SupplierClient, worker_resources: WorkerResources) -> Book:
    book = Book.create(BatchClient(supplier, worker_resources))
    assert (book.lines, book.payloads, book.warnings) == (2, 2, 1)
    return book


def test_each_setting_removes_only_its_own_data(book: Book, remove: Remove) -> None:
    book.grow_old("35 days")
    remove(batch_days=40, payload_days=31)
    assert (book.lines, book.payloads, book.warnings) == (2, 0, 0)
    remove(batch_days=31, payload_days=40)
    assert book.lines == 0


def test_lines_are_removed_without_the_payloads_of_accounts(book: Book, remove: Remove) -> None:
    book.grow_old("35 days")
    remove(batch_days=31, payload_days=40)
    assert (book.lines, book.payloads, book.warnings) == (0, 2, 1)


def test_zero_days_keep_payloads_forever(book: Book, remove: Remove) -> None:
    book.grow_old("10 years")
    remove(payload_days=0)
    assert (book.lines, book.payloads, book.warnings) == (0, 2, 1)


@pytest.mark.parametrize(("age", "left"), [("30 days -1 minutes", 2), ("30 days 1 minutes", 0)])
def test_the_last_day_is_kept_to_its_end(book: Book, remove: Remove, age: str, left: int) -> None:
    book.grow_old(age)
    remove(batch_days=30, payload_days=30)
    assert (book.lines, book.payloads) == (left, left)


def test_more_than_one_piece_is_removed_in_one_run(
    book: Book, remove: Remove, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (retention, maintenance):
        monkeypatch.setattr(module, "PIECE", 1)
    book.grow_old("35 days")
    supplier, long_ago = book.client.supplier, datetime.now(UTC) - timedelta(days=35)
    old_sessions = [uuid4(), uuid4(), uuid4()]
    with supplier.Session.begin() as session:
        key = select(ApiKey.id).where(ApiKey.prefix == find_prefix(supplier.api_key))
        key_id = session.scalars(key).one()
        session.add_all(TokenSession(id=it, api_key_id=key_id, expires_at=long_ago) for it in old_sessions)
    remove(batch_days=30, payload_days=30)
    assert (book.lines, book.payloads) == (0, 0)
    with book.client.supplier.Session() as session:
        assert session.get_one(Batch, book.batch_id).lines_removed_at is not None
        assert session.scalars(select(TokenSession).where(TokenSession.id.in_(old_sessions))).all() == []


def test_staged_payloads_and_batches_that_run_are_not_removed_with_these(
    supplier: SupplierClient, worker_resources: WorkerResources, remove: Remove
) -> None:
    client = BatchClient(supplier, worker_resources)
    waiting, staged = supplier.accounts(2)
    batch_id = UUID(client.start([waiting]))
    supplier.stage(staged)
    number = str(staged["external_account_number"])
    old = func.now() - text("interval '10 years'")
    with supplier.Session.begin() as session:
        session.execute(update(Batch).where(Batch.id == batch_id).values(created_at=old))
        process = supplier.process_of(number)
        session.execute(
            update(AccountImportProcess).where(process).values(staged_at=old, account_created_at=old)
        )
    remove(batch_days=30, payload_days=1)
    book = Book(client, batch_id, [number])
    assert (book.lines, book.payloads) == (1, 1)
