"""What an undo may meet at an account, in every order: whatever comes first, nothing is half undone."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID, uuid4

import pytest
from sqlalchemy import Select, func, select
from sqlalchemy.orm import Session

from migration_service import models
from migration_service.db.base import new_id
from migration_service.db.sql import OpenTransaction
from migration_service.errors import (
    AccountNotFoundInBodyError,
    AccountNotStagedError,
    BatchStateError,
    ServiceError,
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
from migration_service.services.undo.go_live import Gate, GoLiveOrder, start_go_live
from migration_service.services.undo.going_live import mark_piece
from migration_service.services.undo.orders import UndoOrder
from migration_service.services.undo.starting import cancel_undo, start_undo
from migration_service.states import BatchState, ImportState, TransactionPeriod, UndoOutcome
from migration_service.tasks.resources import WorkerResources
from support.batch_client import BatchClient
from support.imported_account import ImportedAccount
from support.interleavings import COMMIT, ROLLBACK, Run, Script, Step, explore
from support.rows import set_live
from support.servers import EmbeddedServers
from support.supplier_client import SupplierClient
from support.undo_client import GoLiveClient, UndoClient


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

    @property
    def pair(self) -> dict[str, str]:
        """The two fields by which every body names the account."""
        return {"import_supplier": self.supplier.code, "external_account_number": self.number}

    def caller(self) -> Caller:
        return Caller(organisation_id=self.supplier.organisation_id(), api_key_id=1, prefix="test")

    def finish(self) -> None:
        """Let a worker do what was left for later."""
        client = UndoClient(self.supplier)
        client.make_due(str(self.undo_id))
        client.work(str(self.undo_id))

    def outcome(self) -> tuple[str, list[str]]:
        with self.supplier.Session() as session:
            line = session.scalars(
                select(models.UndoLine).where(models.UndoLine.undo_id == self.undo_id)
            ).one()
            return line.outcome, list(line.reasons or ())

    def state(self) -> str | None:
        process = self.supplier.process_of(self.number)
        with self.supplier.Session() as session:
            return session.scalar(select(models.AccountImportProcess.state).where(process))

    def accounts(self) -> list[str]:
        with self.supplier.Session() as session:
            own = models.Account.external_account_number == self.number
            return list(session.scalars(select(models.Account.service_account_number).where(own)))

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

    def check_added(self, run: Run, rows: Select[int], blocker: str) -> None:
        """Check that the act `add` has added one of these rows, and so kept the account, or found none."""
        added = run.results["other.add"]
        is_added = not isinstance(added, AccountNotFoundInBodyError)
        with self.supplier.Session() as session:
            assert session.scalar(rows) == int(is_added)
        if is_added:
            assert (added, self.outcome()) == (True, ("KEPT", [blocker]))


#: Returns the account and its undo, the same ones for each order.
Start = Callable[[], Undone]
#: The steps of an act besides the undo, and the check of what both have left.
Act = tuple[list[Step], Callable[[Run], None]]


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


def _transaction(undone: Undone) -> Act:
    day = datetime.now(UTC).date()
    payment = {"transaction_id": "added", "transaction_date": day, "amount": Decimal(1), "type": "PAYMENT"}
    body = PostedBody({**undone.pair, "transactions": [payment]})
    options = {"check_previously_added": True, "force_add_to_current_statement": True}

    def add(session: Session) -> bool:
        add_transactions(session, undone.caller(), body, **options)
        return True

    def check(run: Run) -> None:
        rows = select(func.count()).where(models.Transaction.transaction_id == "added")
        undone.check_added(run, rows, "data_added_later")

    return [("add", add), COMMIT], check


def _confirmation(undone: Undone) -> Act:
    with undone.supplier.Session.begin() as session:
        session.add(models.PaymentVendor(name="vendor", kind="http", url="http://localhost"))
    body = PostedBody({**undone.pair, "vendor": "vendor", "reference": "r", "type": "CARD"})
    details = PaymentInstructionDetails()
    with undone.supplier.Session() as session:
        order = prepare_instruction(session, undone.caller(), body)

    def add(session: Session) -> bool:
        add_instruction(session, order, details)
        return True

    def check(run: Run) -> None:
        rows = select(func.count()).where(models.PaymentInstruction.account_pk == order.account.id)
        undone.check_added(run, rows, "payment_instruction_confirmed")

    return [("add", add), COMMIT], check


def _process_request(undone: Undone) -> Act:
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


def _erasure(undone: Undone) -> Act:
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
            assert session.get(models.SkipMark, (known.id, undone.number))

    return [("erase", erase), COMMIT], check


def _batch_again(undone: Undone) -> Act:
    batch_id = UUID(undone.batches.start([undone.payload]))
    chunk, claims = ChunkKey(batch_id, 1), [new_id()]
    with undone.supplier.Session.begin() as session:
        claim_chunk(session, chunk, claims)

    def work(session: Session) -> Any:
        return work_on_chunk(session, chunk, claims)

    def check(run: Run) -> None:
        assert undone.outcome() == ("REVERTED", [])
        with undone.supplier.Session() as session:
            line = session.get_one(models.BatchLine, (batch_id, 1))
        assert line.status in ("IMPORTED", "ALREADY_IMPORTED")
        assert undone.accounts() == ([line.service_account_number] if line.status == "IMPORTED" else [])
        if run.before("undo.commit", "other.work"):
            assert line.status == "IMPORTED"

    return [("work", work), COMMIT], check


def _other_undo(undone: Undone) -> Act:
    second = UUID(UndoClient(undone.supplier).start_beside(str(undone.undo_id), undone.number))

    def check(run: Run) -> None:
        assert not run.errors
        other = replace(undone, undo_id=second)
        other.finish()
        outcomes = sorted([undone.outcome(), other.outcome()])
        assert outcomes == [("KEPT", ["account_not_imported"]), ("REVERTED", [])]

    return [("revert", lambda session: revert_piece(session, second)), COMMIT], check


def _going_live(undone: Undone) -> Act:
    def check(run: Run) -> None:
        outcome = undone.outcome()
        assert outcome in (("REVERTED", []), ("KEPT", ["import_supplier_live"]))
        if run.before("other.commit", "undo.revert"):
            assert outcome == ("KEPT", ["import_supplier_live"])
        if outcome[0] == UndoOutcome.REVERTED:
            assert run.before("undo.commit", "other.commit"), "nothing is reverted after it"

    code = undone.supplier.code
    return [("live", lambda session: set_live(session, code)), COMMIT], check


def _go_live_of(undone: Undone, **values: Any) -> UUID:
    with undone.supplier.Session.begin() as session:
        return start_go_live(
            session, GoLiveOrder(supplier=undone.supplier.known(), gate=Gate(hours=0), **values)
        ).id


def _marking(undone: Undone) -> Act:
    go_live_id = _go_live_of(undone, external_account_numbers=[undone.number])

    def check(run: Run) -> None:
        client = GoLiveClient(undone.supplier)
        client.work(str(go_live_id))
        report, outcome = client.get(str(go_live_id)), undone.outcome()
        assert report["state"] == "COMPLETED"
        assert outcome in (("REVERTED", []), ("KEPT", ["account_live"]))
        is_live = outcome[0] == UndoOutcome.KEPT
        assert (report["accounts"], client.owned("new")) == (int(is_live), [undone.number] * is_live)
        with undone.supplier.Session() as session:
            told = select(func.count()).where(models.Event.type == "account.went_live")
            assert session.scalar(told) == int(is_live), "told once, and only of what went live"

    return [("mark", lambda session: mark_piece(session, go_live_id)), COMMIT], check


def _marking_that_dies(undone: Undone) -> Act:
    """Kill the worker before its commit: another one marks the account, or finds it reverted."""
    (mark, _commit), check = _marking(undone)
    return [mark, ROLLBACK], check


@pytest.mark.parametrize(
    "make",
    [
        *(_transaction, _confirmation, _process_request, _erasure, _batch_again, _other_undo),
        *(_going_live, _marking, _marking_that_dies),
    ],
)
def test_an_undo_and_another_act(start: Start, make: Callable[[Undone], Act]) -> None:
    def script() -> Script:
        undone = start()
        steps, check_act = make(undone)
        run = yield {"undo": undone.revert(), "other": steps}
        undone.check(run)
        check_act(run)

    assert explore(start().supplier.Session, script, may_raise=True) >= 4


@pytest.mark.parametrize("make", [_transaction, _erasure, _process_request, _batch_again])
def test_a_go_live_and_another_act(start: Start, make: Callable[[Undone], Act]) -> None:
    """Marking never waits for ever, and marks what exists: created before its moment, and not undone."""

    def script() -> Script:
        undone = start()
        if make in (_process_request, _batch_again):
            undone.finish()
        steps, _ = make(undone)
        go_live_id = _go_live_of(undone)
        run = yield {
            "live": [("mark", lambda session: mark_piece(session, go_live_id)), COMMIT],
            "other": steps,
        }
        assert not run.errors
        client = GoLiveClient(undone.supplier)
        client.work(str(go_live_id))
        assert client.get(str(go_live_id))["state"] == "COMPLETED"
        assert client.owned("new") == [undone.number] * bool(undone.accounts())
        assert client.owned("old") == []

    assert explore(start().supplier.Session, script, may_raise=True) >= 3


@dataclass
class Renewed:
    """An account that was created, and a batch with a newer version of it that a worker has claimed."""

    undone: Undone
    chunk: ChunkKey
    claims: list[UUID]

    @classmethod
    def begin(cls, undone: Undone) -> "Renewed":
        newer = undone.payload | {"billing_address1": NEWER}
        batch_id = UUID(undone.batches.start([newer], replace="differing"))
        renewed = cls(undone, ChunkKey(batch_id, 1), [new_id()])
        with undone.supplier.Session.begin() as session:
            claim_chunk(session, renewed.chunk, renewed.claims)
        return renewed

    def work(self) -> list[Step]:
        return [("work", lambda session: work_on_chunk(session, self.chunk, self.claims)), COMMIT]

    def status(self) -> str:
        with self.undone.supplier.Session() as session:
            return str(session.get_one(models.BatchLine, (self.chunk.batch_id, 1)).status)

    def check(self, run: Run) -> dict[str, Any] | None:
        """Check that the account is there at most once, in one version. Return it, or None if it is gone."""
        unexpected = {name: it for name, it in run.errors.items() if not isinstance(it, ServiceError)}
        assert not unexpected
        found = self.undone.accounts()
        assert bool(found) == (self.undone.state() == ImportState.IMPORTED)
        if not found:
            return None
        account = ImportedAccount(self.undone.supplier, self.undone.number).read()
        process = self.undone.supplier.process_row(self.undone.number)
        if process.payload is not None:
            assert account["billing_address1"] == process.payload["billing_address1"]
            assert self.undone.supplier.reconcile()["differing"] == 0
        return account


NEWER = "Keizersgracht 1"


def _add(renewed: Renewed) -> Act:
    steps, _ = _transaction(renewed.undone)

    def check(run: Run) -> None:
        account = renewed.check(run)
        assert run.results["other.add"] is True, "an account that is replaced is not away meanwhile"
        assert account is not None
        assert renewed.status() == "REPLACED"
        sent = renewed.undone.payload["ledgers"]
        added = [len(it.get("added_transactions", ())) for it in account["ledgers"]]
        assert sum(added) == 1
        balance = sum(it["ledger_balance"] for it in account["ledgers"])
        assert balance == sum(Decimal(str(it["ledger_balance"])) for it in sent) + 1

    return steps, check


def _confirm(renewed: Renewed) -> Act:
    steps, _ = _confirmation(renewed.undone)

    def check(run: Run) -> None:
        account = renewed.check(run)
        assert run.results["other.add"] is True
        assert account is not None
        assert (renewed.status(), len(account["added_payment_instructions"])) == ("REPLACED", 1)

    return steps, check


def _undo(renewed: Renewed) -> Act:
    def check(run: Run) -> None:
        renewed.undone.finish()
        is_gone = renewed.check(run) is None
        assert renewed.undone.outcome() == ("REVERTED", [])
        assert renewed.status() == ("REPLACED" if is_gone else "IMPORTED")
        assert renewed.undone.service_account_number not in renewed.undone.accounts()

    return renewed.undone.revert(), check


def _erase(renewed: Renewed) -> Act:
    steps, _ = _erasure(renewed.undone)

    def check(run: Run) -> None:
        account = renewed.check(run)
        assert account is not None
        refused = "other.erase" in run.errors
        process = renewed.undone.supplier.process_row(renewed.undone.number)
        assert (process.payload is None) == (not refused)
        assert process.refused_payload is None or refused
        if not refused:
            assert "customers" not in account
            assert account.get("billing_address1") is None

    return steps, check


def _live(renewed: Renewed) -> Act:
    steps, _ = _going_live(renewed.undone)

    def check(run: Run) -> None:
        account = renewed.check(run)
        assert account is not None
        assert renewed.status() in ("REPLACED", "FAILED")
        assert (account["billing_address1"] == NEWER) == (renewed.status() == "REPLACED")
        if run.before("other.commit", "replace.work"):
            assert renewed.status() == "FAILED"
        if renewed.status() == "REPLACED":
            assert run.before("replace.commit", "other.commit"), "nothing is replaced after it"

    return steps, check


def _job(renewed: Renewed) -> Act:
    """Mark the account by the job of a go-live, which finds it under a row that is replaced meanwhile."""
    number, client = renewed.undone.number, GoLiveClient(renewed.undone.supplier)
    go_live_id = _go_live_of(renewed.undone, external_account_numbers=[number])

    def check(run: Run) -> None:
        assert not run.errors
        account = renewed.check(run)
        assert account is not None
        assert renewed.status() in ("REPLACED", "FAILED")
        assert (account["billing_address1"] == NEWER) == (renewed.status() == "REPLACED")
        if run.before("other.commit", "replace.work"):
            assert renewed.status() == "FAILED"
        client.work(str(go_live_id))
        assert client.owned("new") == [number]
        with renewed.undone.supplier.Session() as session:
            told = select(func.count()).where(models.Event.type == "account.went_live")
            assert session.scalar(told) == 1

    return [("mark", lambda session: mark_piece(session, go_live_id)), COMMIT], check


def _added_line(renewed: Renewed) -> Act:
    """Add a note by a batch, whose worker locks in another order than a request."""
    undone = renewed.undone
    batch_id = UUID(undone.batches.start([undone.pair | {"notes": [{"body": "called"}]}], kind="notes"))
    chunk, claims = ChunkKey(batch_id, 1), [new_id()]
    with undone.supplier.Session.begin() as session:
        claim_chunk(session, chunk, claims)

    def check(run: Run) -> None:
        assert not run.errors
        with undone.supplier.Session() as session:
            assert session.get_one(models.BatchLine, (batch_id, 1)).status == "ADDED"
        account = renewed.check(run)
        assert account is not None
        assert (renewed.status(), len(account["added_notes"])) == ("REPLACED", 1)

    return [("work", lambda session: work_on_chunk(session, chunk, claims)), COMMIT], check


def _process(renewed: Renewed) -> Act:
    attempt = renewed.undone.supplier.attempt_of(renewed.undone.number)

    def begin(session: Session) -> bool:
        return states.start(OpenTransaction.of(session), attempt, durable=True)

    def check(run: Run) -> None:
        assert run.results["other.begin"] is False, "it is never pending in between"
        assert renewed.check(run) is not None
        assert renewed.status() == "REPLACED"

    return [("begin", begin), COMMIT], check


def _second_replacement(renewed: Renewed) -> Act:
    second = Renewed.begin(renewed.undone)

    def check(run: Run) -> None:
        assert renewed.check(run) is not None
        assert sorted([renewed.status(), second.status()]) == ["ALREADY_IMPORTED", "REPLACED"]

    return second.work(), check


@pytest.mark.parametrize(
    "make", [_add, _added_line, _confirm, _undo, _erase, _live, _job, _process, _second_replacement]
)
def test_a_replacement_and_another_act(start: Start, make: Callable[[Renewed], Act]) -> None:
    def script() -> Script:
        renewed = Renewed.begin(start())
        steps, check = make(renewed)
        run = yield {"replace": renewed.work(), "other": steps}
        check(run)

    assert explore(start().supplier.Session, script, may_raise=True) >= 4


def _replacement(undone: Undone) -> Act:
    renewed = Renewed.begin(undone)

    def check(run: Run) -> None:
        assert renewed.check(run) is not None
        assert renewed.status() == "REPLACED"

    return renewed.work(), check


@pytest.mark.parametrize("make", [_transaction, _erasure, _replacement])
def test_what_was_added_is_taken_back_beside_another_act(start: Start, make: Callable[[Undone], Act]) -> None:
    def script() -> Script:
        undone = start()
        day = datetime.now(UTC).date().isoformat()
        payment = {"transaction_id": "mistake", "transaction_date": day, "amount": "2.50", "type": "PAYMENT"}
        report = undone.batches.run([undone.pair | {"transactions": [payment]}], kind="transactions")
        client = UndoClient(undone.supplier)
        undo_id = client.start(batch=report["batch_id"])
        steps, check = make(undone)
        revert = ("revert", lambda session: revert_piece(session, UUID(undo_id)))
        run = yield {"back": [revert, COMMIT], "other": steps}
        assert not run.errors
        client.make_due(undo_id)
        client.work(undo_id)
        (reasons,) = client.reasons(undo_id)
        assert not reasons or (make, reasons) == (_erasure, ["account_erased"])
        with undone.supplier.Session() as session:
            left = session.scalars(select(models.Transaction.amount).where(_ADDED)).all()
            balance = session.scalar(select(func.sum(models.Ledger.ledger_balance)))
        kept = [Decimal("2.50")] * bool(reasons) + [Decimal(1)] * (make is _transaction)
        assert sorted(left) == sorted(kept)
        sent = sum(Decimal(str(it["ledger_balance"])) for it in undone.payload["ledgers"])
        assert balance == sent + sum(kept)
        if make is _replacement:
            check(run)

    assert explore(start().supplier.Session, script, may_raise=True) >= 4


_ADDED = models.Transaction.period == TransactionPeriod.ADDED


def test_a_batch_is_resumed_or_undone(batches: BatchClient) -> None:
    def script() -> Script:
        (payload,) = batches.supplier.accounts()
        batch_id = batches.run([payload | {"external_account_number": f"interleaved {uuid4()}"}])["batch_id"]
        with batches.supplier.Session.begin() as session:
            session.get_one(models.Batch, batch_id).state = BatchState.PAUSED

        def undo(session: Session) -> UUID:
            known, batch = batches.supplier.known(), session.get_one(models.Batch, batch_id)
            return start_undo(session, UndoOrder(supplier=known, batch=batch, reason="A test."))

        def resume(session: Session) -> None:
            resume_batch(session, session.get_one(models.Batch, batch_id))

        run = yield {"undo": [("start", undo), COMMIT], "other": [("resume", resume), COMMIT]}
        ((refused, error),) = run.errors.items()
        assert isinstance(error, BatchStateError)
        is_resumed = refused == "undo.start"
        assert batches.get(batch_id)["state"] == ("RUNNING" if is_resumed else "PAUSED")
        if not is_resumed:
            UndoClient(batches.supplier).work(str(run.results["undo.start"]))

    assert explore(batches.supplier.Session, script, may_raise=True) > 3


def test_a_cancellation(batches: BatchClient, start: Start) -> None:
    def script() -> Script:
        undone = start()

        def cancel(session: Session) -> None:
            cancel_undo(session, session.get_one(models.Undo, undone.undo_id))
            session.flush()

        yield {"undo": undone.revert(), "other": [("cancel", cancel), COMMIT]}
        outcome, _ = undone.outcome()
        assert outcome in (UndoOutcome.PENDING, UndoOutcome.REVERTED)
        assert bool(undone.accounts()) == (outcome == UndoOutcome.PENDING)
        with batches.supplier.Session() as session:
            told = session.scalars(select(models.Event.data).where(models.Event.type == "undo.ended")).all()
        (counted,) = (it["counts"] for it in told if it["undo_id"] == str(undone.undo_id))
        assert counted == {outcome: 1}, "whoever cancels has waited for the piece"
        undone.finish()
        assert undone.outcome() == (outcome, []), "nothing is reverted after it"

    assert explore(batches.supplier.Session, script) >= 4
