"""A line of added data and the creation of its account, in every order: the line is added once, or waits."""

from typing import Any
from uuid import UUID, uuid4

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from migration_service.db.base import new_id
from migration_service.db.sql import OpenTransaction
from migration_service.models import Account, BatchLine, Note
from migration_service.services.accounts.erasure import erase_account
from migration_service.services.batches.work.chunks import ChunkKey, claim_chunk, work_on_chunk
from migration_service.services.processing.attempts import run_attempt
from migration_service.states import LineStatus
from support.batch_client import BatchClient
from support.interleavings import COMMIT, Run, Script, explore


def _account(batches: BatchClient) -> dict[str, Any]:
    (account,) = batches.supplier.accounts()
    return account | {"external_account_number": f"interleaved {uuid4()}"}


class Noted:
    """A batch with one note for an account, and the claim of its chunk by a worker."""

    def __init__(self, batches: BatchClient, number: str) -> None:
        self.batches, self.number = batches, number
        line = batches.line(number, notes=[{"body": "called"}])
        self.batch_id = UUID(batches.start([line], kind="notes"))
        self.attempt = self.claim()

    def claim(self) -> UUID:
        attempt = new_id()
        with self.batches.resources.Session.begin() as session:
            assert claim_chunk(session, ChunkKey(self.batch_id, 1), [attempt])
        return attempt

    def work(self, session: Session) -> int | None:
        return work_on_chunk(session, ChunkKey(self.batch_id, 1), [self.attempt])

    def status(self) -> LineStatus:
        with self.batches.resources.Session() as session:
            return LineStatus(session.get_one(BatchLine, (self.batch_id, 1)).status)

    def notes(self) -> int:
        with self.batches.resources.Session() as session:
            own = select(func.count()).select_from(Note).join(Account, Account.id == Note.account_pk)
            return session.scalar(own.where(Account.external_account_number == self.number)) or 0

    def check(self, run: Run) -> None:
        """Whatever the order was, the line was added once or waits, and is added when it is tried again."""
        assert not run.errors
        assert self.status() in (LineStatus.ADDED, LineStatus.DEFERRED)
        assert self.notes() == (self.status() is LineStatus.ADDED)
        if self.status() is LineStatus.DEFERRED:
            self.attempt = self.claim()
            with self.batches.resources.Session.begin() as session:
                self.work(session)
        assert (self.status(), self.notes()) == (LineStatus.ADDED, 1)


def test_a_line_that_is_worked_on_while_a_request_creates_its_account(batches: BatchClient) -> None:
    def script() -> Script:
        account = _account(batches)
        number = account["external_account_number"]
        assert batches.supplier.stage(account).status_code == 201
        assert batches.supplier.process(number).status_code == 202
        attempt_id = batches.supplier.current_attempt(number)
        noted = Noted(batches, number)

        def create(session: Session) -> None:
            assert run_attempt(OpenTransaction.of(session), attempt_id)

        run = yield {"line": [("work", noted.work), COMMIT], "request": [("create", create), COMMIT]}
        noted.check(run)

    assert explore(batches.supplier.Session, script) == 4


def test_a_line_that_is_worked_on_while_an_import_batch_creates_its_account(batches: BatchClient) -> None:
    def script() -> Script:
        account = _account(batches)
        imported = ChunkKey(UUID(batches.start([account])), 1)
        claim = new_id()
        with batches.resources.Session.begin() as session:
            assert claim_chunk(session, imported, [claim])
        noted = Noted(batches, account["external_account_number"])

        def create(session: Session) -> None:
            assert work_on_chunk(session, imported, [claim]) == 0

        run = yield {"line": [("work", noted.work), COMMIT], "import": [("create", create), COMMIT]}
        noted.check(run)

    assert explore(batches.supplier.Session, script) == 4


def test_two_batches_with_the_same_note_for_an_account_add_it_once(batches: BatchClient) -> None:
    account = _account(batches)
    assert batches.run([account])["state"] == "COMPLETED"
    number = account["external_account_number"]

    def script() -> Script:
        with batches.supplier.Session.begin() as session:
            for note in session.scalars(select(Note)):
                session.delete(note)
        one, other = Noted(batches, number), Noted(batches, number)
        yield {"one": [("work", one.work), COMMIT], "other": [("work", other.work), COMMIT]}
        assert one.notes() == 1
        assert {one.status(), other.status()} == {LineStatus.ADDED, LineStatus.ALREADY_ADDED}

    explore(batches.supplier.Session, script)


def test_a_line_that_is_worked_on_while_its_account_is_erased(batches: BatchClient) -> None:
    def script() -> Script:
        account = _account(batches)
        assert batches.run([account])["state"] == "COMPLETED"
        noted = Noted(batches, account["external_account_number"])

        def erase(session: Session) -> None:
            supplier = batches.supplier.known()
            erase_account(session, supplier, noted.number, reason="test")

        yield {"line": [("work", noted.work), COMMIT], "erasure": [("erase", erase), COMMIT]}
        assert noted.notes() == 0, "what was added before is erased, and nothing is added after it"

    explore(batches.supplier.Session, script)
