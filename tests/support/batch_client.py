"""Starts batches over the interface, and processes them as the workers do."""

import gzip
from collections.abc import Iterable
from typing import Any
from unittest.mock import patch

import msgspec
from sqlalchemy import func, select, update
from werkzeug.test import TestResponse

from migration_service.models import Batch, BatchChunk, ImportSupplier
from migration_service.services.batches.work import execution
from migration_service.services.batches.work.chunks import ChunkKey
from migration_service.services.batches.work.feed import dispatch_chunks, dispatch_vendor_chunks
from migration_service.services.processing.slots import reconcile_slots
from migration_service.states import BatchState, ChunkState
from migration_service.tasks.resources import WorkerResources
from support.supplier_client import SupplierClient

NDJSON = "application/x-ndjson"


def ndjson(accounts: Iterable[Any], *, compress: bool = False) -> bytes:
    """Return a file with one account per line. Bytes are a line as they are."""
    lines = [item if isinstance(item, bytes) else msgspec.json.encode(item) for item in accounts]
    text = b"\n".join(lines) + b"\n"
    return gzip.compress(text) if compress else text


class BatchClient:
    """The batches of a supplier."""

    def __init__(self, supplier: SupplierClient, resources: WorkerResources) -> None:
        self.supplier = supplier
        self.resources = resources

    def post(
        self,
        body: bytes | None,
        mode: str = "import",
        headers: dict[str, str] | None = None,
        **arguments: Any,
    ) -> TestResponse:
        """POST /batches/, with defaults for parameters that are not given."""
        query = {"import_supplier": self.supplier.code, "mode": mode} | arguments
        if mode in ("import", "dry-run") and "kind" not in arguments:
            query = {"operations_team_name": self.supplier.team} | query
        return self.supplier.post(
            "/batches/", query_string=query, data=body, headers={"Content-Type": NDJSON} | (headers or {})
        )

    def line(self, number: str, **members: Any) -> dict[str, Any]:
        """Return a line of added data for an account."""
        return {"import_supplier": self.supplier.code, "external_account_number": number, **members}

    def start(self, accounts: Iterable[Any], mode: str = "import", **arguments: Any) -> str:
        """Start a batch with these lines, and return its id."""
        answer = self.post(ndjson(accounts), mode, **arguments)
        assert answer.status_code == 202, answer.text
        return str(answer.json["batch_id"])  # type: ignore[index]

    def run(self, accounts: Iterable[Any], mode: str = "import", **arguments: Any) -> dict[str, Any]:
        """Start a batch with these lines, process it, and return its report."""
        batch_id = self.start(accounts, mode, **arguments)
        self.work()
        return self.get(batch_id)

    def work(self, *, reserve: int = 50) -> None:
        """Do what the workers do until no batch has anything left to do."""
        # A worker goes on with a chunk until it is done, however busy the machine is.
        with patch.object(execution, "TURN_SECONDS", 600.0):
            while chunks := self.dispatch():
                for chunk in chunks:
                    resources = self.resources
                    assert execution.perform_chunk(resources.Session, resources.slots, chunk, reserve=reserve)

    def dispatch(self) -> list[ChunkKey]:
        """Dispatch and return the next chunks."""
        with self.resources.Session.begin() as session:
            reconcile_slots(session, self.resources.slots)
            dispatch_chunks(session, 8)
            dispatch_vendor_chunks(session, 8)
            chunks = session.execute(
                select(BatchChunk.batch_id, BatchChunk.first_line)
                .join(Batch, Batch.id == BatchChunk.batch_id)
                .join(ImportSupplier, ImportSupplier.id == Batch.import_supplier_id)
                .where(
                    ImportSupplier.code == self.supplier.code,
                    Batch.state == BatchState.RUNNING,
                    BatchChunk.state == ChunkState.DISPATCHED,
                )
                .order_by(BatchChunk.batch_id, BatchChunk.first_line)
            )
            return [ChunkKey(*chunk) for chunk in chunks]

    def cancel_all(self) -> None:
        """Cancel the batches of all tests so far, whose chunks a worker might take instead."""
        values = {"state": BatchState.CANCELLED, "finished_at": func.now()}
        with self.resources.Session.begin() as session:
            session.execute(update(Batch).where(Batch.finished_at.is_(None)).values(values))

    def get(self, batch_id: str) -> dict[str, Any]:
        """GET /batches/<id>/."""
        return dict(self.supplier.read(f"/batches/{batch_id}/"))

    def results(self, batch_id: str, query: str = "") -> list[dict[str, Any]]:
        """GET /batches/<id>/results/ as NDJSON."""
        return list(self.supplier.read(f"/batches/{batch_id}/results/{query}"))

    def change(self, batch_id: str, action: str) -> TestResponse:
        """POST /batches/<id>/<action>/."""
        return self.supplier.post(f"/batches/{batch_id}/{action}/")


def counts(report: dict[str, Any]) -> dict[str, int]:
    """Return the counts of a report that are not zero."""
    return {status: number for status, number in report["counts"].items() if number}
