"""Everything that locks an account import process, in every order."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

import msgspec
import pytest
from sqlalchemy import func, select, update
from sqlalchemy.orm import Session, sessionmaker

from migration_payloads.profile import Profile
from migration_payloads.schemas.json import parse_json
from migration_payloads.validation import ValidatedAccount, validate_account
from migration_service.db.base import new_id
from migration_service.db.sql import OpenTransaction
from migration_service.errors import AccountCreationFailedError, InvalidError
from migration_service.models import Account, AccountImportProcess, Attempt
from migration_service.services.imports import states, storing
from migration_service.services.imports.skipping import skip_accounts
from migration_service.services.imports.states import START, RunningAttempt
from migration_service.services.imports.storing import StagedProcess
from migration_service.services.processing.attempts import (
    create_set,
    fail_attempt,
    run_attempt,
    set_apart,
    take_set,
    withdraw_attempt,
)
from migration_service.services.processing.signals import ANNOUNCED_KEY, announce, take_announcement
from migration_service.services.setup.suppliers import KnownSupplier
from migration_service.services.setup.teams import list_operations_teams
from migration_service.states import ImportState, Outcome
from migration_service.tasks.resources import WorkerResources
from support.interleavings import COMMIT, ROLLBACK, Script, Step, explore
from support.supplier_client import SupplierClient


@dataclass
class Case:
    """A supplier's staged accounts, each with an attempt that has begun or could."""

    sessions: sessionmaker[Session]
    supplier: KnownSupplier
    payload: dict[str, Any]
    team_id: int

    def stage(self, name: str = "") -> "Staged":
        """Stage an account whose number contains `name`."""
        staged = Staged(self, f"{name}{new_id()}")
        with self.sessions.begin() as session:
            staged.process_id = staged.restage(session, "Singel 1").id
        return staged

    def begin(self, ago: timedelta = timedelta()) -> "Staged":
        """Stage an account whose attempt has begun that long ago."""
        staged = self.stage()
        with self.sessions.begin() as session:
            assert staged.begin(session)
            session.execute(
                update(AccountImportProcess)
                .where(AccountImportProcess.id == staged.process_id)
                .values(dispatched_at=func.now() - ago)
            )
        return staged


class Staged:
    def __init__(self, case: Case, number: str) -> None:
        self.case = case
        self.number = number
        self.process_id = 0
        self.attempt_id = new_id()

    def account(self, street: str) -> ValidatedAccount:
        changed = {"external_account_number": self.number, "billing_address1": street}
        account = validate_account(self.case.payload | changed, Profile.LENIENT)
        account.raise_errors()
        return account

    def restage(self, session: Session, street: str = "Damrak 2") -> StagedProcess:
        (staged,) = storing.stage(OpenTransaction.of(session), self.case.supplier, [self.account(street)])
        return staged

    def staged_street(self) -> str:
        with self.case.sessions() as session:
            payload = session.get_one(AccountImportProcess, self.process_id).payload or {}
        return str(payload["billing_address1"])

    def begin(self, session: Session, attempt_id: UUID | None = None) -> bool:
        attempt = RunningAttempt(
            id=attempt_id or self.attempt_id,
            account_import_process_id=self.process_id,
            operations_team_id=self.case.team_id,
            api_key_id=None,
            dry_run=False,
            request_id=None,
            address=None,
        )
        return states.start(OpenTransaction.of(session), attempt, durable=True)

    def begin_and_commit(self, session: Session) -> bool:
        started = self.begin(session)
        session.commit()
        return started

    def run(self, session: Session) -> str | None:
        ended = run_attempt(OpenTransaction.of(session), self.attempt_id)
        return ended.service_account_number if ended else None

    def withdraw(self, session: Session) -> bool:
        return withdraw_attempt(OpenTransaction.of(session), self.attempt_id)

    def fail(self, session: Session) -> bool:
        error = AccountCreationFailedError("No.")
        return fail_attempt(OpenTransaction.of(session), self.attempt_id, error) is not None

    def skip(self, session: Session) -> bool:
        try:
            skip_accounts(session, self.case.supplier.id, [self.number])
        except InvalidError:
            return False
        return True

    def left(self) -> tuple[str, str | None, list[str | None], list[str | None]]:
        """Return the state, its number, the outcomes of the attempts, and the streets of the accounts."""
        with self.case.sessions() as session:
            process = session.get_one(AccountImportProcess, self.process_id)
            attempts = select(Attempt.outcome).where(Attempt.account_import_process_id == process.id)
            accounts = select(Account).where(Account.account_import_process_id == process.id)
            streets = [account.billing_address1 for account in session.scalars(accounts)]
            outcomes = sorted(session.scalars(attempts), key=str)
            return process.state, process.service_account_number, outcomes, streets


@pytest.fixture
def case(supplier: SupplierClient) -> Case:
    (payload,) = supplier.accounts()
    with supplier.Session() as session:
        known = supplier.known()
        (team_id,) = [team.id for team, _ in list_operations_teams(session) if team.name == supplier.team]
    return Case(supplier.Session, known, parse_json(msgspec.json.encode(payload)), team_id)


def test_an_attempt_is_run_or_withdrawn_and_a_second_request_begins_only_after_the_withdrawal(
    case: Case,
) -> None:
    def script() -> Script:
        staged = case.begin()

        def begin_another(session: Session) -> bool:
            started = staged.begin(session, new_id())
            session.commit()
            return started

        run = yield {
            "worker": [("run", staged.run), COMMIT],
            "request": [("withdraw", staged.withdraw), COMMIT],
            "second": [("begin and commit", begin_another)],
        }
        number, withdrawn = run.results["worker.run"], run.results["request.withdraw"]
        started = run.results["second.begin and commit"]
        if number:
            assert (withdrawn, started) == (False, False)
            assert staged.left() == ("IMPORTED", number, [Outcome.SUCCEEDED], ["Singel 1"])
        else:
            assert withdrawn, "the attempt did not end"
            state = ImportState.IN_PROGRESS if started else ImportState.PENDING
            outcomes = [None, Outcome.WITHDRAWN] if started else [Outcome.WITHDRAWN]
            assert staged.left() == (state, None, outcomes, [])

    assert explore(case.sessions, script) > 20


@pytest.mark.parametrize("end", [COMMIT, ROLLBACK], ids=["commit", "rollback"])
def test_two_workers_with_one_message_create_one_account(case: Case, end: Step) -> None:
    def script() -> Script:
        staged = case.begin()
        run = yield {"one": [("run", staged.run), end], "other": [("run", staged.run), COMMIT]}
        one, other = run.results["one.run"], run.results["other.run"]
        assert not run.waited, "a worker waited for another session"
        if other or end is COMMIT:
            assert not (one and other and end is COMMIT)
            assert staged.left() == ("IMPORTED", other or one, [Outcome.SUCCEEDED], ["Singel 1"])
        else:
            assert staged.left() == ("IN_PROGRESS", None, [None], [])

    assert explore(case.sessions, script) == 4


def test_failing_an_attempt_waits_for_the_worker_that_has_it(case: Case) -> None:
    def script() -> Script:
        staged = case.begin()
        run = yield {"worker": [("run", staged.run), COMMIT], "sweep": [("fail", staged.fail), COMMIT]}
        number, failed = run.results["worker.run"], run.results["sweep.fail"]
        assert bool(number) != failed
        if number:
            assert staged.left() == ("IMPORTED", number, [Outcome.SUCCEEDED], ["Singel 1"])
        else:
            assert staged.left() == ("PENDING", None, [Outcome.FAILED], [])

    explore(case.sessions, script)


def test_an_attempt_that_a_worker_has_is_not_dispatched_again_and_no_try_is_counted(case: Case) -> None:
    def script() -> Script:
        staged = case.begin(timedelta(hours=1))
        run = yield {
            "worker": [("run", staged.run), COMMIT],
            "sweep": [
                ("dispatch", lambda session: staged.attempt_id in set_apart(session, age=10.0).waiting),
                COMMIT,
            ],
            "redelivery": [("count", set_apart), COMMIT],
        }
        order = [step for step in run.order if step in ("worker.run", "worker.commit", "sweep.dispatch")]
        if order[0] == "worker.run":
            assert not run.results["sweep.dispatch"]
        if run.results["worker.run"]:
            assert staged.left()[0] == ImportState.IMPORTED
        assert not run.waited & {"sweep.dispatch", "worker.run"}

    assert explore(case.sessions, script) == 36


def test_of_two_requests_one_begins_an_attempt(case: Case) -> None:
    def script() -> Script:
        staged = case.stage()
        begin: Step = ("begin", lambda session: staged.begin(session, new_id()))
        run = yield {name: [begin, COMMIT] for name in ("one", "other")}
        assert sorted([run.results["one.begin"], run.results["other.begin"]]) == [False, True]
        assert staged.left() == (START.target, None, [None], [])

    explore(case.sessions, script)


def test_a_payload_is_stored_before_the_attempt_begins_or_not_at_all(case: Case) -> None:
    """The account has the payload of the last staging that was accepted.

    A staging that is refused holds the lock, too, so a worker may find the row locked and leave it. Then the
    attempt stays in progress, and runs when the sweep has dispatched it again.
    """

    def script() -> Script:
        staged = case.stage()
        run = yield {
            "supplier": [("stage", staged.restage), COMMIT],
            "request": [("begin and commit", staged.begin_and_commit), ("run", staged.run), COMMIT],
        }
        assert run.results["request.begin and commit"]
        taken = run.results["supplier.stage"].state is ImportState.PENDING
        number = run.results["request.run"]
        if number is None:
            assert staged.left() == ("IN_PROGRESS", None, [None], [])
            assert not taken
            with case.sessions.begin() as session:
                number = staged.run(session)
        street = "Damrak 2" if taken else "Singel 1"
        assert staged.left() == ("IMPORTED", number, [Outcome.SUCCEEDED], [street])

    assert explore(case.sessions, script) > 5


def test_a_skipped_account_is_neither_staged_nor_begun(case: Case) -> None:
    def script() -> Script:
        staged = case.stage()
        run = yield {
            "operator": [("skip", staged.skip), COMMIT],
            "supplier": [("stage", staged.restage), COMMIT],
            "request": [("begin", staged.begin), COMMIT],
        }
        skipped, started = run.results["operator.skip"], run.results["request.begin"]
        assert skipped != started
        assert staged.left()[0] == (ImportState.SKIPPED if skipped else ImportState.IN_PROGRESS)
        taken = run.results["supplier.stage"].state is ImportState.PENDING
        assert staged.staged_street() == ("Damrak 2" if taken else "Singel 1")

    assert explore(case.sessions, script) > 20


def test_two_files_with_the_same_accounts_in_another_order_do_not_deadlock(case: Case) -> None:
    def stage(street: str, *staged: Staged) -> Step:
        accounts = [it.account(street) for it in staged]
        return "stage", lambda session: storing.stage(OpenTransaction.of(session), case.supplier, accounts)

    def script() -> Script:
        one, other = case.stage("a"), case.stage("b")
        lock = select(AccountImportProcess.id).where(AccountImportProcess.id == one.process_id)
        yield {
            "somebody": [("lock", lambda session: session.scalars(lock.with_for_update()).all()), COMMIT],
            "one": [stage("Damrak 2", one, other), COMMIT],
            "other": [stage("Rokin 3", other, one), COMMIT],
        }
        assert one.staged_street() == other.staged_street(), (
            "the files were not processed one after the other"
        )

    assert explore(case.sessions, script) > 10


@pytest.mark.parametrize(("end", "orders"), [(COMMIT, 18), (ROLLBACK, 36)], ids=["commit", "rollback"])
def test_of_two_workers_with_sets_each_account_has_one(case: Case, end: Step, orders: int) -> None:
    """Also if a request withdraws one of the attempts meanwhile, and if one of the workers dies."""

    def script() -> Script:
        first, second = case.begin(), case.begin()
        run = yield {
            "one": [("run", create_waiting), end],
            "other": [("run", create_waiting), COMMIT],
            "request": [("withdraw", first.withdraw), COMMIT],
        }
        assert not run.waited, "nobody waits for anybody"
        one, other = (set(run.results[f"{worker}.run"]) for worker in ("one", "other"))
        taken = other | (one if end is COMMIT else set())
        if end is COMMIT:
            assert not one & other
        for staged in (first, second):
            state, number, outcomes, streets = staged.left()
            if staged.attempt_id in taken:
                assert (state, outcomes, streets) == ("IMPORTED", [Outcome.SUCCEEDED], ["Singel 1"])
                assert number
            elif staged is first and run.results["request.withdraw"]:
                assert (state, number, outcomes, streets) == ("PENDING", None, [Outcome.WITHDRAWN], [])
            else:
                assert (state, number, outcomes, streets) == ("IN_PROGRESS", None, [None], [])
        with case.sessions.begin() as session:
            set_apart(session)  # the next order begins with nobody waiting

    alike = ("one", "other") if end is COMMIT else ()
    assert explore(case.sessions, script, alike=alike) == orders


def create_waiting(session: Session) -> list[UUID]:
    transaction = OpenTransaction.of(session)
    return [ended.attempt.id for ended in create_set(transaction, take_set(transaction))]


def test_whoever_begins_is_taken_or_announced_by_a_message_that_is_on_its_way(
    case: Case, worker_resources: WorkerResources
) -> None:
    """Two requests begin and announce while a worker takes a set: none of them waits for nothing."""
    redis = worker_resources.redis

    def script() -> Script:
        requests = {"one": case.stage(), "other": case.stage()}
        with case.sessions.begin() as session:
            set_apart(session)
        redis.set(ANNOUNCED_KEY, b"1")  # the worker's message, which it has in hand
        published: list[str] = []
        tell: Step = ("announce", lambda _: announce(redis, lambda: published.append("")))
        take: Step = ("take the announcement", lambda _: take_announcement(redis))
        begun = {name: [("begin and commit", it.begin_and_commit), tell] for name, it in requests.items()}
        yield {**begun, "worker": [take, ("create", create_waiting), COMMIT]}
        if published:
            take_announcement(redis)
            with case.sessions.begin() as session:
                create_waiting(session)
        for staged in requests.values():
            assert staged.left()[0] == ImportState.IMPORTED

    assert explore(case.sessions, script, alike=["one", "other"]) == 105
