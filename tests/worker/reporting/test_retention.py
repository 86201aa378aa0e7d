"""The periodic removal by the task that beat sends, with the settings of the worker."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import pytest
from celery import current_app
from sqlalchemy import select, update

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


def test_more_than_one_piece_is_removed_in_one_run(
    supplier: SupplierClient,
    worker_resources: WorkerResources,
    migrated: Settings,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for module in (retention, maintenance):
        monkeypatch.setattr(module, "PIECE", 1)
    old, recent = supplier.accounts(2), {"external_account_number": "recent"}
    client = BatchClient(supplier, worker_resources)
    batch_id = UUID(client.run(old)["batch_id"])
    kept_id = UUID(client.run([old[0] | recent])["batch_id"])
    long_ago = datetime.now(UTC) - timedelta(days=35)
    sessions = [uuid4(), uuid4(), uuid4()]
    with supplier.Session.begin() as session:
        session.execute(update(Batch).where(Batch.id == batch_id).values(finished_at=long_ago))
        for account in old:
            process = supplier.process_of(account["external_account_number"])
            session.execute(update(AccountImportProcess).where(process).values(account_created_at=long_ago))
        key = select(ApiKey.id).where(ApiKey.prefix == find_prefix(supplier.api_key))
        key_id = session.scalars(key).one()
        session.add_all(TokenSession(id=it, api_key_id=key_id, expires_at=long_ago) for it in sessions)
    before = current_app._get_current_object()  # type: ignore[attr-defined]
    celery = create_celery(replace(migrated, batch_retention_days=30, payload_retention_days=30))
    remove_old_data()
    close_celery(celery)
    before.set_current()
    with supplier.Session() as session:
        assert set(session.scalars(select(BatchLine.batch_id))) == {kept_id}
        assert session.get_one(Batch, batch_id).lines_removed_at is not None
        kept = select(AccountImportProcess.external_account_number)
        assert session.scalars(kept.where(AccountImportProcess.payload.is_not(None))).all() == ["recent"]
        assert session.scalars(select(TokenSession).where(TokenSession.id.in_(sessions))).all() == []
