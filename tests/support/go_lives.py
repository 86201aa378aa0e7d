"""Go-lives over HTTP, and what a worker does of them."""

from typing import Any
from uuid import UUID

from werkzeug.test import TestResponse

from migration_service.db.jobs import Progress
from migration_service.services.undo.going_live import mark_piece
from support.supplier_client import SupplierClient


class GoLiveClient:
    def __init__(self, supplier: SupplierClient) -> None:
        self.supplier = supplier

    def post(self, path: str = "/go-lives/", **fields: Any) -> TestResponse:
        return self.supplier.post(path, {"import_supplier": self.supplier.code} | fields)

    def preview(self, **fields: Any) -> dict[str, Any]:
        answer = self.post("/go-lives/preview/", **fields)
        assert answer.status_code == 200, answer.text
        return dict(answer.json or {})

    def start(self, **fields: Any) -> str:
        answer = self.post(**fields)
        assert answer.status_code == 202, answer.text
        return str((answer.json or {})["go_live_id"])

    def work(self, go_live_id: str) -> Progress:
        """Do what a worker does, until nothing is left to do now."""
        progress = Progress.WORKED
        while progress is Progress.WORKED:
            with self.supplier.Session.begin() as session:
                progress = mark_piece(session, UUID(go_live_id))
        return progress

    def run(self, **fields: Any) -> dict[str, Any]:
        """The report of a new go-live, after a worker was through."""
        go_live_id = self.start(**fields)
        self.work(go_live_id)
        return self.get(go_live_id)

    def get(self, go_live_id: str) -> dict[str, Any]:
        answer = self.supplier.get(f"/go-lives/{go_live_id}/")
        assert answer.status_code == 200, answer.text
        return dict(answer.json or {})

    def owned(self, owner: str, query: str = "") -> list[str]:
        """The numbers of the accounts of an owner."""
        path = f"/imported-account-import-processes/{self.supplier.code}/?owner={owner}{query}"
        answer = self.supplier.get(path)
        assert answer.status_code == 200, answer.text
        return [it["external_account_number"] for it in answer.json or ()]
