"""What an undo may meet at an account, in every order: whatever comes first, nothing is half undone."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID, uuid4

import pytest
from sqlalchemy import func, select, update
from sqlalchemy.orm import Session

from migration_service.db.base import new_id
from migration_service.db.sql import OpenTransaction
from migration_service.errors import (
    AccountNotFoundInBodyError,
    AccountNotStagedError,
    BatchStateError,
    ServiceError,
)
from migration_service.models import (
    Account,
    AccountImportProcess,
    Batch,
    BatchLine,
    PaymentInstruction,
    PaymentVendor,
    SkipMark,
    Transaction,
    Undo,
    UndoLine,
)
from migration_service.payment_vendors.protocol import PaymentInstructionDetails
from migration_service.services.access.callers import Caller
from migration_service.services.accounts.added_data import PostedBody
from migration_service.services.accounts.erasure import erase_account
from migration_service.services.accounts.payment_instructions import add_instruction, prepare_instruction
from migration_service.services.accounts.transactions import add_transactions
from migration_service.services.batches.control import resume_batch
from migration_service.services.batches.work.chunks import ChunkKey, claim_chunk, work_on_chunk
from migration_service.services.imports import states
from migration_service.services.undo.execution import revert_piece
from migration_service.services.undo.go_live import set_live
from migration_service.services.undo.orders import UndoOrder
from migration_service.services.undo.starting import cancel_undo, start_undo
from migration_service.states import BatchState, ImportState, UndoOutcome
from migration_service.tasks.resources import WorkerResources
from support.batch_client import BatchClient
from support.interleavings import COMMIT, Run, Scenario, Step, explore
from support.servers import EmbeddedServers
from support.supplier_client import SupplierClient
from support.undo_client import UndoClient


@dataclass
class Undone:
    """An account that was created, and an undo of it that no worker has taken yet."""

    batches: BatchClient
    number: str
    payload: dict[str, Any]
    service_account_number: str
    undo_id: UUID

    @classmethod
    def create(cls, batches: BatchClient) -> "Undone":
        (payload,) = batches.supplier.accounts()
        (line,) = batches.results(batches.run([payload])["batch_id"])
        number = payload["external_account_number"]
        undo_id = UUID(UndoClient(batches.supplier).start(number))
        return cls(batches, number, payload, line["service_account_number"], undo_id)

    @property
    def supplier(self) -> SupplierClient:
        return self.batches.supplier

    def revert(self) -> list[Step]:
        return [("revert", lambda session: revert_piece(session, self.undo_id)), COMMIT]

    def finish(self) -> None:
        """Let a worker do what was left for later."""
        with self.supplier.Session.begin() as session:
            mine = UndoLine.undo_id == self.undo_id
            session.execute(update(UndoLine).where(mine).values(tried_at=None))
        UndoClient(self.supplier).work(str(self.undo_id))

    def outcome(self) -> tuple[str, list[str]]:
        with self.supplier.Session() as session:
            line = session.scalars(select(UndoLine).where(UndoLine.undo_id == self.undo_id)).one()
            return line.outcome, list(line.reasons or ())

    def state(self) -> str | None:
        with self.supplier.Session() as session:
            process = self.supplier.process_of(self.number)
            return session.scalar(select(AccountImportProcess.state).where(process))

    def accounts(self) -> list[str]:
        with self.supplier.Session() as session:
            own = Account.external_account_number == self.number
            return list(session.scalars(select(Account.service_account_number).where(own)))

    def check(self, run: Run) -> None:
        """What is true whatever comes first: the outcome is true, and the state goes with the account."""
        unexpected = {name: it for name, it in run.errors.items() if not isinstance(it, ServiceError)}
        assert not unexpected
        self.finish()
        outcome, reasons = self.outcome()
        assert outcome in (UndoOutcome.REVERTED, UndoOutcome.KEPT), outcome
        assert bool(reasons) == (outcome == UndoOutcome.KEPT)
        exists = self.service_account_number in self.accounts()
        assert exists == (outcome == UndoOutcome.KEPT and reasons != ["account_not_imported"])
        assert bool(self.accounts()) == (self.state() == ImportState.IMPORTED)
        assert len(self.accounts()) <= 1


#: Returns the account and its undo, the same ones for each order.
Start = Callable[[], Undone]


@pytest.fixture(scope="session")
def kept_undone(
    kept_supplier: SupplierClient, worker_resources: WorkerResources, embedded_servers: EmbeddedServers
) -> Undone:
    with embedded_servers.keeping("undone"):
        embedded_servers.put_back("supplier")
        return Undone.create(BatchClient(kept_supplier.copy(), worker_resources))


@pytest.fixture
def start(batches: BatchClient, kept_undone: Undone, embedded_servers: EmbeddedServers) -> Start:
    def start() -> Undone:
        embedded_servers.empty()
        embedded_servers.put_back("undone")
        return replace(kept_undone, batches=batches)

    return start


def _explore(start: Start, make: Callable[[Undone], tuple[list[Step], Callable[[Run], None]]]) -> int:
    """Try the undo of an account against another act, and check both."""

    def scenario() -> Scenario:
        undone = start()
        steps, check_act = make(undone)

        def check(run: Run) -> None:
            undone.check(run)
            check_act(run)

        return Scenario({"undo": undone.revert(), "other": steps}, check)

    return explore(start().supplier.Session, scenario)


def _caller(undone: Undone) -> Caller:
    known = undone.supplier.known()
    return Caller(organisation_id=known.organisation_id, api_key_id=1, prefix="test")


def test_a_transaction_that_is_added(start: Start) -> None:
    def make(undone: Undone) -> tuple[list[Step], Callable[[Run], None]]:
        payment = {
            "transaction_id": "added",
            "transaction_date": datetime.now(UTC).date(),
            "amount": Decimal("1.00"),
            "type": "PAYMENT",
        }
        body = {
            "import_supplier": undone.supplier.code,
            "external_account_number": undone.number,
            "transactions": [payment],
        }

        def add(session: Session) -> bool:
            add_transactions(
                session,
                _caller(undone),
                PostedBody(body),
                check_previously_added=True,
                force_add_to_current_statement=True,
            )
            return True

        def check(run: Run) -> None:
            added = run.results["other.add"] is True
            with undone.supplier.Session() as session:
                mine = select(func.count()).select_from(Transaction).join(Account)
                own = Account.external_account_number == undone.number
                found = session.scalar(mine.where(own, Transaction.transaction_id == "added"))
            assert found == int(added)
            if added:
                assert undone.outcome() == ("KEPT", ["data_added_later"])
            else:
                assert isinstance(run.results["other.add"], AccountNotFoundInBodyError)

        return [("add", add), COMMIT], check

    assert _explore(start, make) >= 4


def test_an_instruction_that_a_vendor_has_just_confirmed(start: Start) -> None:
    def make(undone: Undone) -> tuple[list[Step], Callable[[Run], None]]:
        with undone.supplier.Session.begin() as session:
            session.add(PaymentVendor(name="vendor", kind="http", url="http://localhost"))
        body = {
            "import_supplier": undone.supplier.code,
            "external_account_number": undone.number,
            "vendor": "vendor",
            "reference": "r",
            "type": "CARD",
        }

        details = PaymentInstructionDetails(reference="r", type="CARD", status="active")
        with undone.supplier.Session() as session:
            order = prepare_instruction(session, _caller(undone), PostedBody(body))

        def add(session: Session) -> bool:
            add_instruction(session, order, details)
            return True

        def check(run: Run) -> None:
            added = run.results["other.add"] is True
            with undone.supplier.Session() as session:
                own = PaymentInstruction.account_pk == order.account.id
                found = session.scalar(select(func.count()).select_from(PaymentInstruction).where(own))
            assert found == int(added)
            if added:
                assert undone.outcome() == ("KEPT", ["payment_instruction_confirmed"])
            else:
                assert isinstance(run.results["other.add"], AccountNotFoundInBodyError)

        return [("add", add), COMMIT], check

    assert _explore(start, make) >= 4


def test_a_process_request(start: Start) -> None:
    def make(undone: Undone) -> tuple[list[Step], Callable[[Run], None]]:
        attempt = undone.supplier.attempt_of(undone.number)

        def begin(session: Session) -> bool:
            return states.start(OpenTransaction.of(session), attempt, durable=True)

        def check(run: Run) -> None:
            assert undone.outcome() == ("REVERTED", [])
            begun = run.results["other.begin"]
            assert undone.state() == (ImportState.IN_PROGRESS if begun else ImportState.PENDING)
            if run.before("undo.commit", "other.begin"):
                assert begun

        return [("begin", begin), COMMIT], check

    assert _explore(start, make) >= 4


def test_an_erasure(start: Start) -> None:
    def make(undone: Undone) -> tuple[list[Step], Callable[[Run], None]]:
        known = undone.supplier.known()

        def erase(session: Session) -> Any:
            return erase_account(session, known, undone.number, reason="A test.")

        def check(run: Run) -> None:
            assert not isinstance(run.results["other.erase"], AccountNotStagedError)
            outcome, reasons = undone.outcome()
            if outcome == UndoOutcome.KEPT:
                assert reasons == ["account_erased"]
                return
            assert undone.state() is None, "erased after the undo: removed, and marked"
            with undone.supplier.Session() as session:
                assert session.get(SkipMark, (known.id, undone.number))

        return [("erase", erase), COMMIT], check

    assert _explore(start, make) >= 4


def test_a_batch_that_has_the_account_again(batches: BatchClient, start: Start) -> None:
    def make(undone: Undone) -> tuple[list[Step], Callable[[Run], None]]:
        batch_id = UUID(batches.start([undone.payload]))
        claim = new_id()

        def dispatch(session: Session) -> bool:
            return claim_chunk(session, ChunkKey(batch_id, 1), [claim])

        with undone.supplier.Session.begin() as session:
            dispatch(session)

        def work(session: Session) -> Any:
            return work_on_chunk(session, ChunkKey(batch_id, 1), [claim])

        def check(run: Run) -> None:
            assert undone.outcome() == ("REVERTED", [])
            with undone.supplier.Session() as session:
                line = session.get_one(BatchLine, (batch_id, 1))
            assert line.status in ("IMPORTED", "ALREADY_IMPORTED")
            told = [line.service_account_number] if line.status == "IMPORTED" else []
            assert undone.accounts() == told
            if run.before("undo.commit", "other.work"):
                assert line.status == "IMPORTED"

        return [("work", work), COMMIT], check

    assert _explore(start, make) >= 4


def test_a_batch_is_resumed_or_undone(batches: BatchClient) -> None:
    def scenario() -> Scenario:
        (payload,) = batches.supplier.accounts()
        batch_id = batches.run([payload | {"external_account_number": f"interleaved {uuid4()}"}])["batch_id"]
        with batches.supplier.Session.begin() as session:
            session.get_one(Batch, batch_id).state = BatchState.PAUSED

        def undo(session: Session) -> UUID | None:
            known = batches.supplier.known()
            batch = session.get_one(Batch, batch_id)
            try:
                return start_undo(session, UndoOrder(supplier=known, batch=batch, reason="A test."))
            except BatchStateError:
                return None

        def resume(session: Session) -> bool:
            try:
                resume_batch(session, session.get_one(Batch, batch_id))
            except BatchStateError:
                return False
            return True

        def check(run: Run) -> None:
            assert not run.errors
            undo_id, is_resumed = run.results["undo.start"], run.results["other.resume"]
            assert bool(undo_id) is not is_resumed
            assert batches.get(batch_id)["state"] == ("RUNNING" if is_resumed else "PAUSED")
            if undo_id:
                UndoClient(batches.supplier).work(str(undo_id))

        acts: dict[str, list[Step]] = {
            "undo": [("start", undo), COMMIT],
            "other": [("resume", resume), COMMIT],
        }
        return Scenario(acts, check)

    assert explore(batches.supplier.Session, scenario) > 3


def test_another_undo_of_the_same_account(start: Start) -> None:
    def make(undone: Undone) -> tuple[list[Step], Callable[[Run], None]]:
        second = UUID(UndoClient(undone.supplier).start_beside(str(undone.undo_id), undone.number))

        def check(run: Run) -> None:
            assert not run.errors
            other = replace(undone, undo_id=second)
            other.finish()
            outcomes = sorted([undone.outcome(), other.outcome()])
            assert outcomes == [("KEPT", ["account_not_imported"]), ("REVERTED", [])]

        return [("revert", lambda session: revert_piece(session, second)), COMMIT], check

    assert _explore(start, make) >= 4


def test_a_cancellation(batches: BatchClient, start: Start) -> None:
    def scenario() -> Scenario:
        undone = start()

        def cancel(session: Session) -> None:
            cancel_undo(session, session.get_one(Undo, undone.undo_id))
            session.flush()

        def check(run: Run) -> None:
            assert not run.errors
            outcome, _ = undone.outcome()
            assert outcome in (UndoOutcome.PENDING, UndoOutcome.REVERTED)
            assert bool(undone.accounts()) == (outcome == UndoOutcome.PENDING)
            undone.finish()
            assert undone.outcome() == (outcome, []), "nothing is reverted after it"

        return Scenario({"undo": undone.revert(), "other": [("cancel", cancel), COMMIT]}, check)

    assert explore(batches.supplier.Session, scenario) >= 4


def test_going_live(start: Start) -> None:
    def make(undone: Undone) -> tuple[list[Step], Callable[[Run], None]]:
        def check(run: Run) -> None:
            outcome = undone.outcome()
            assert outcome in (("REVERTED", []), ("KEPT", ["import_supplier_live"]))
            if run.before("other.commit", "undo.revert"):
                assert outcome == ("KEPT", ["import_supplier_live"])
            if outcome[0] == UndoOutcome.REVERTED:
                assert run.before("undo.commit", "other.commit"), "nothing is reverted after it"

        code = undone.supplier.code
        return [("live", lambda session: set_live(session, code, None)), COMMIT], check

    assert _explore(start, make) >= 4
