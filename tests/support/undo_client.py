"""Undoing imports over the interface, doing the workers' work on them, and dumping the tables, in tests."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

import msgspec
from sqlalchemy import func, select, update
from sqlalchemy.orm import Session, sessionmaker
from werkzeug.test import TestResponse

from migration_service.db.base import Base
from migration_service.db.jobs import Progress
from migration_service.db.known_commits import MARK
from migration_service.models import Undo, UndoLine
from migration_service.services.undo.execution import revert_piece
from support.supplier_client import SupplierClient

#: Tables that tell what happened. They are not as they were before, because something has happened.
_HISTORY = {
    *("attempt", "audit_entry", "audit_day", "batch", "batch_chunk", "batch_line"),
    *("undo", "undo_line", "retired_account_number"),
    *("event", "event_history", "event_consumer"),
    # Tokens of the clients, and the time at which a key was last used.
    *("token_session", "refresh_token", "api_key"),
}


class UndoClient:
    def __init__(self, supplier: SupplierClient) -> None:
        self.supplier = supplier

    def post(self, *numbers: str, **fields: Any) -> TestResponse:
        """POST /undos/, with what a test does not say filled in."""
        headers = fields.pop("headers", None)
        body = {"import_supplier": self.supplier.code, "reason": "A test."} | fields
        if numbers:
            body["external_account_numbers"] = list(numbers)
        return self.supplier.post("/undos/", body, headers=headers)

    def start(self, *numbers: str, **fields: Any) -> str:
        answer = self.post(*numbers, **fields)
        assert answer.status_code == 202, answer.text
        return str((answer.json or {})["undo_id"])

    def start_beside(self, undo_id: str, *numbers: str, **fields: Any) -> str:
        """The id of another undo of accounts in `undo_id`, as if both had begun at the same moment."""
        self.change(undo_id, finished_at=func.now())
        beside = self.start(*numbers, **fields)
        self.change(undo_id, finished_at=None)
        return beside

    def change(self, undo_id: str, **values: Any) -> None:
        """Change the row of an undo."""
        with self.supplier.Session.begin() as session:
            session.execute(update(Undo).where(Undo.id == UUID(undo_id)).values(**values))

    def make_due(self, undo_id: str) -> None:
        """Let the accounts that were left for later be tried again now."""
        with self.supplier.Session.begin() as session:
            session.execute(update(UndoLine).where(UndoLine.undo_id == UUID(undo_id)).values(tried_at=None))

    def run(self, *numbers: str, **fields: Any) -> dict[str, Any]:
        """The report of a new undo, after a worker was through."""
        undo_id = self.start(*numbers, **fields)
        self.work(undo_id)
        return self.get(undo_id)

    def work(self, undo_id: str) -> Progress:
        """Do what a worker does, until nothing is left to do now."""
        progress = Progress.WORKED
        while progress is Progress.WORKED:
            with self.supplier.Session.begin() as session:
                progress = revert_piece(session, UUID(undo_id))
        return progress

    def preview(self, *numbers: str, **fields: Any) -> dict[str, Any]:
        """POST /undos/preview/."""
        body: dict[str, Any] = {"import_supplier": self.supplier.code} | fields
        if numbers:
            body["external_account_numbers"] = list(numbers)
        answer = self.supplier.post("/undos/preview/", body)
        assert answer.status_code == 200, answer.text
        return dict(answer.json or {})

    def get(self, undo_id: str) -> dict[str, Any]:
        """GET /undos/<id>/."""
        answer = self.supplier.get(f"/undos/{undo_id}/")
        assert answer.status_code == 200, answer.text
        return dict(answer.json or {})

    def outcomes(self, undo_id: str, query: str = "") -> list[dict[str, Any]]:
        """GET /undos/<id>/results/ as NDJSON."""
        answer = self.supplier.get(f"/undos/{undo_id}/results/{query}")
        assert answer.status_code == 200, answer.text
        return [msgspec.json.decode(line) for line in answer.data.splitlines()]

    def reasons(self, undo_id: str) -> list[list[str]]:
        """Why each account was kept; an empty list for one that was reverted."""
        return [line["reasons"] for line in self.outcomes(undo_id)]


def dump(sessions: sessionmaker[Session]) -> dict[str, Sequence[Any]]:
    """Every row of every table that has a state, by the name of the table, without the marks of commits."""
    with sessions.begin() as session:
        return {
            table.name: sorted(
                tuple(map(repr, row))
                for row in session.execute(select(table))
                if row._mapping.get("endpoint") != MARK
            )
            for table in Base.metadata.sorted_tables
            if table.name not in _HISTORY
        }
