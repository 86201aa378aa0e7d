"""Undos and go-lives over the interface, what workers do of them, and dumps of the tables, in tests."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar
from uuid import UUID

from sqlalchemy import func, select, update
from sqlalchemy.orm import Session, sessionmaker
from werkzeug.test import TestResponse

from migration_service.db.base import Base
from migration_service.db.jobs import Progress
from migration_service.db.known_commits import MARK
from migration_service.models import Undo, UndoLine
from migration_service.services.undo.execution import revert_piece
from migration_service.services.undo.going_live import mark_piece
from support.supplier_client import SupplierClient

#: Tables that tell what happened. They are not as they were before, because something has happened.
_HISTORY = {
    *("attempt", "audit_entry", "audit_day", "batch", "batch_chunk", "batch_line"),
    *("undo", "undo_line", "retired_account_number"),
    *("event", "event_history", "event_consumer"),
    # Tokens of the clients, and the time at which a key was last used.
    *("token_session", "refresh_token", "api_key"),
}


def work_off(
    sessions: sessionmaker[Session], do_piece: Callable[[Session, UUID], Progress], job_id: UUID
) -> Progress:
    """Do what a worker does of a job, until nothing is left to do now."""
    progress = Progress.WORKED
    while progress is Progress.WORKED:
        with sessions.begin() as session:
            progress = do_piece(session, job_id)
    return progress


class _JobClient:
    """Jobs of one kind, which are at `path` and have their id in the member `key`."""

    path: str
    key: str
    do_piece: Callable[[Session, UUID], Progress]
    #: What is sent of a job if a test does not say it.
    given: ClassVar[Mapping[str, str]] = {}

    def __init__(self, supplier: SupplierClient) -> None:
        self.supplier = supplier

    def post(self, *numbers: str, headers: dict[str, str] | None = None, **fields: Any) -> TestResponse:
        body = {"import_supplier": self.supplier.code, **self.given, **fields}
        if numbers:
            body["external_account_numbers"] = list(numbers)
        return self.supplier.post(self.path, body, headers=headers)

    def start(self, *numbers: str, **fields: Any) -> str:
        answer = self.post(*numbers, **fields)
        assert answer.status_code == 202, answer.text
        return str((answer.json or {})[self.key])

    def work(self, job_id: str) -> Progress:
        return work_off(self.supplier.Session, self.do_piece, UUID(job_id))

    def run(self, *numbers: str, **fields: Any) -> dict[str, Any]:
        """The report of a new job, after a worker was through."""
        job_id = self.start(*numbers, **fields)
        self.work(job_id)
        return self.get(job_id)

    def get(self, job_id: str) -> dict[str, Any]:
        return dict(self.supplier.read(f"{self.path}{job_id}/"))


class GoLiveClient(_JobClient):
    path, key = "/go-lives/", "go_live_id"
    do_piece = staticmethod(mark_piece)

    def owned(self, owner: str) -> list[str]:
        """The numbers of the accounts of an owner."""
        path = f"/imported-account-import-processes/{self.supplier.code}/?owner={owner}"
        return [it["external_account_number"] for it in self.supplier.read(path)]


class UndoClient(_JobClient):
    path, key = "/undos/", "undo_id"
    do_piece = staticmethod(revert_piece)
    given: ClassVar[Mapping[str, str]] = {"reason": "A test."}

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

    def outcomes(self, undo_id: str, query: str = "") -> list[dict[str, Any]]:
        """GET /undos/<id>/results/ as NDJSON."""
        return list(self.supplier.read(f"/undos/{undo_id}/results/{query}"))

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
