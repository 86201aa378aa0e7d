"""Sets of attempts: one message, one statement and one commit for all that wait, and nothing lost by it."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from tempfile import TemporaryFile
from typing import Any
from unittest.mock import patch
from uuid import UUID

import psycopg
import pytest
from sqlalchemy import select
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session, sessionmaker

from migration_service import models
from migration_service.blueprints.requests.resources import resources
from migration_service.config import Settings
from migration_service.connections import make_redis
from migration_service.db.base import new_id
from migration_service.db.sql import OpenTransaction
from migration_service.services.processing import attempts, signals
from migration_service.services.processing.attempts import MAX_TRIES, create_set, set_apart, take_set
from migration_service.services.processing.execution import perform_attempt, perform_set
from migration_service.services.setup.suppliers import set_customer_emails
from migration_service.states import EmailMoment, ImportState, Outcome
from migration_service.tasks import accounts as tasks
from migration_service.tasks.app import celery_app
from migration_service.tasks.maintenance import sweep_attempts
from migration_service.tasks.resources import WorkerResources
from support.supplier_client import SupplierClient
from worker.processing.begun import Begun, begin, run_redelivered


@dataclass(frozen=True, slots=True)
class Waiting:
    supplier: SupplierClient
    accounts: list[Begun]

    @property
    def numbers(self) -> list[str]:
        return [it.number for it in self.accounts]

    @property
    def ids(self) -> list[UUID]:
        return [it.attempt_id for it in self.accounts]

    def states(self) -> list[str]:
        return [it.process().state for it in self.accounts]

    def tries(self) -> list[int]:
        """How often each was given to a worker."""
        return [it.process().tries for it in self.accounts]

    def outcomes(self) -> list[str | None]:
        return [it.attempt().outcome for it in self.accounts]

    def created(self) -> dict[str, str]:
        """The service account numbers of their accounts, by external account number."""
        with self.supplier.Session() as session:
            columns = models.Account.external_account_number, models.Account.service_account_number
            of_supplier = models.ImportSupplier.code == self.supplier.code
            rows = session.execute(
                select(*columns)
                .join(models.ImportSupplier, models.ImportSupplier.id == models.Account.import_supplier_id)
                .where(of_supplier)
            )
            return {row.external_account_number: row.service_account_number for row in rows}


def wait_for_workers(supplier: SupplierClient, count: int, **fields: Any) -> Waiting:
    return Waiting(supplier, [begin(supplier, account, **fields) for account in supplier.accounts(count)])


def messages(resources: WorkerResources, task: str) -> int:
    name = f'"task": "{task}"'.encode()
    return sum(name in message for message in resources.redis.lrange("migration:interactive", 0, -1))


@pytest.fixture
def end_connections(migrated: Settings) -> Iterator[Callable[[str], None]]:
    """Lets the server end each connection that creates the account with this external account number."""

    def make(number: str) -> None:
        owner.execute(
            f"""CREATE OR REPLACE FUNCTION end_connection() RETURNS trigger LANGUAGE plpgsql AS $$
                BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); RETURN NEW; END $$;
            CREATE OR REPLACE TRIGGER end_connection BEFORE INSERT ON account FOR EACH ROW
                WHEN (NEW.external_account_number = '{number}') EXECUTE FUNCTION end_connection()"""
        )

    with psycopg.connect(migrated.owner_database_url, autocommit=True) as owner:
        yield make
        owner.execute("DROP TRIGGER end_connection ON account; DROP FUNCTION end_connection()")


def create_all(resources: WorkerResources) -> tuple[int, int]:
    """Perform a set; return how many ended, and how many were set apart."""
    ended, apart = perform_set(resources.Session, resources.redis, publish=lambda: None)
    return len(ended), len(apart.waiting)


def test_all_that_wait_are_created_together(
    supplier: SupplierClient, worker_resources: WorkerResources
) -> None:
    waiting = wait_for_workers(supplier, 5)
    assert tasks.create_set.run() == "5 accounts: 5 SUCCEEDED"
    assert waiting.states() == [ImportState.IMPORTED] * 5
    assert waiting.outcomes() == [Outcome.SUCCEEDED] * 5
    created = waiting.created()
    assert sorted(created) == sorted(waiting.numbers)
    for number, attempt_id in zip(waiting.numbers, waiting.ids, strict=True):
        told = worker_resources.redis.lpop(signals.NOTIFICATION_KEY.format(attempt_id))
        assert told == created[number].encode()
        assert worker_resources.redis.zscore("migration:slots", str(attempt_id)) is None
    assert tasks.create_set.run() == "nothing to do"


@pytest.mark.usefixtures("worker_resources")
def test_one_account_takes_few_round_trips(supplier: SupplierClient) -> None:
    """Each is a sleep and a wake-up. A connection prepares what it has sent five times."""
    with supplier.app.app_context():
        web = resources().Session
    worker = celery_app().resources.Session  # of the application that another test may have made last
    for sessions in (web, worker):
        sessions.kw["bind"].dispose()  # then the next connection is the only one
    sent = {}
    for number in supplier.stage_new(7):
        with trace(web) as sent["web"]:
            assert supplier.process(number).status_code == 202
        with trace(worker) as sent["worker"]:
            assert tasks.create_set.run() == "1 account: 1 SUCCEEDED"
    # The token, the checks, the start; taking the attempt, the account with its outcome, the commit.
    assert {who: len(trips) for who, trips in sent.items()} == {"web": 3, "worker": 4}, sent


@contextmanager
def trace(sessions: sessionmaker[Session]) -> Iterator[list[str]]:
    """Collect what the connection that is used next sends to PostgreSQL, and waits for the answer."""
    sent: list[str] = []
    with sessions.kw["bind"].connect() as connection, TemporaryFile("w+") as file:
        traced = connection.connection.driver_connection.pgconn
        traced.trace(file.fileno())
        connection.close()
        yield sent
        traced.untrace()
        file.seek(0)
        sent += re.findall(r"\tF\t\d+\t(?:Query|Sync)\b.*", file.read())


def test_a_set_has_accounts_of_several_suppliers_and_messages_for_the_customers_of_those_that_send_them(
    supplier: SupplierClient, worker_resources: WorkerResources
) -> None:
    sending = SupplierClient.create(supplier.app, supplier.Session)
    with supplier.Session.begin() as session:
        set_customer_emails(session, sending.code, on=True, at=EmailMoment.AT_CREATION)
    customer = {"given_name": "Anne", "family_name": "Smit", "email": "anne@customers.example"}
    for client in (supplier, sending):
        (account,) = client.accounts()
        begin(client, account | {"customers": [customer]})
    assert create_all(worker_resources) == (2, 0)
    with supplier.Session() as session:
        owner = (
            select(models.ImportSupplier.code)
            .join(models.Account)
            .join(models.Customer)
            .join(models.CustomerEmail)
        )
        assert session.scalars(owner).all() == [sending.code]


def test_what_a_set_took_before_it_ended_in_vain_runs_alone(
    supplier: SupplierClient, worker_resources: WorkerResources
) -> None:
    waiting = wait_for_workers(supplier, 2)
    redis = worker_resources.redis
    assert signals.find_new(redis, waiting.ids[:1]) == {waiting.ids[0]}  # by a set whose worker died
    assert create_all(worker_resources) == (1, 1)
    assert waiting.states() == [ImportState.IN_PROGRESS, ImportState.IMPORTED]
    assert tasks.create_set.run() == "1 account: 1 alone: SUCCEEDED"
    assert signals.find_new(redis, waiting.ids[:1]) == {waiting.ids[0]}  # the key of the created one has gone


def test_all_that_begin_are_announced_by_one_message_until_a_worker_takes_it(
    supplier: SupplierClient, worker_resources: WorkerResources
) -> None:
    wait_for_workers(supplier, 1)
    worker_resources.redis.persist("migration:announced")  # however long the requests take
    (_first, *others) = supplier.accounts(4)
    for account in others:
        supplier.stage(account)
        supplier.process(account["external_account_number"])
    assert messages(worker_resources, "accounts.create_set") == 1
    signals.take_announcement(worker_resources.redis)
    signals.announce(worker_resources.redis, calls := Calls())
    signals.announce(worker_resources.redis, calls)
    assert calls.count == 1


class Calls:
    count = 0

    def __call__(self) -> None:
        self.count += 1


def test_an_account_that_the_database_refuses_fails_alone(
    supplier: SupplierClient, worker_resources: WorkerResources
) -> None:
    """One bad account among 31 good ones: they are created, and only it fails."""
    waiting = wait_for_workers(supplier, 32)
    waiting.accounts[7].change(
        payload=models.AccountImportProcess.payload.concat({"customers": [{"date_of_birth": "never"}]})
    )
    assert create_all(worker_resources) == (0, 32)
    assert waiting.created() == {}
    assert create_all(worker_resources) == (0, 0), "no set takes them again"
    while tasks.create_set.run() != "nothing to do":
        pass
    expected = [Outcome.SUCCEEDED] * 32
    expected[7] = Outcome.FAILED
    assert waiting.outcomes() == expected
    assert len(waiting.created()) == 31


def test_an_account_that_ends_the_connection_fails_after_five_tries_and_the_others_are_created(
    supplier: SupplierClient, worker_resources: WorkerResources, end_connections: Callable[[str], None]
) -> None:
    waiting = wait_for_workers(supplier, 3)
    end_connections(waiting.numbers[1])
    for _ in range(2 * MAX_TRIES):
        tasks.create_set.run()
    assert waiting.outcomes() == [Outcome.SUCCEEDED, Outcome.FAILED, Outcome.SUCCEEDED]
    assert sorted(waiting.created()) == sorted([waiting.numbers[0], waiting.numbers[2]])
    assert waiting.states()[1] == ImportState.PENDING
    told = worker_resources.redis.lpop(signals.NOTIFICATION_KEY.format(waiting.ids[1]))
    assert told == signals.ASK_DATABASE.encode(), "its request reads the reason"
    assert worker_resources.redis.zscore("migration:slots", str(waiting.ids[1])) is None


def test_a_connection_that_is_lost_before_anything_was_taken_is_no_accounts_fault(
    supplier: SupplierClient, worker_resources: WorkerResources
) -> None:
    waiting = wait_for_workers(supplier, 2)

    def lose(transaction: OpenTransaction) -> list[Any]:
        return transaction.execute("SELECT pg_terminate_backend(pg_backend_pid())", {})

    with patch.object(attempts, "take_set", lose), pytest.raises(OperationalError):
        create_all(worker_resources)
    assert waiting.tries() == [1, 1]
    assert create_all(worker_resources) == (2, 0), "none has to run alone"


def test_payloads_of_older_rules_are_set_apart_and_the_others_created(
    supplier: SupplierClient, worker_resources: WorkerResources
) -> None:
    waiting = wait_for_workers(supplier, 3)
    waiting.accounts[1].change(rules_version="older")
    assert create_all(worker_resources) == (2, 1)
    assert waiting.tries() == [1, 2, 1]
    assert perform_attempt(worker_resources.Session, waiting.ids[1])
    assert waiting.states() == [ImportState.IMPORTED] * 3


def test_a_dry_run_never_is_in_a_set(supplier: SupplierClient, worker_resources: WorkerResources) -> None:
    waiting = wait_for_workers(supplier, 1, dry_run=True)
    assert messages(worker_resources, "accounts.create_set") == 1
    assert create_all(worker_resources) == (0, 0)
    assert tasks.create_set.run() == "1 account: 1 alone: dry_run_succeeded"
    assert waiting.outcomes() == [Outcome.DRY_RUN_SUCCEEDED]
    assert waiting.created() == {}


def test_a_message_that_came_back_sets_all_that_wait_apart(
    supplier: SupplierClient, worker_resources: WorkerResources
) -> None:
    """Its worker died, perhaps of one of them."""
    waiting = wait_for_workers(supplier, 3)
    assert run_redelivered() == "4 accounts: 3 set apart, to run alone, 1 alone: SUCCEEDED"
    assert waiting.tries() == [2, 2, 2]
    assert run_redelivered() == "1 account: 1 alone: SUCCEEDED"
    assert waiting.tries() == [2, 2, 2], "those that wait were given to nobody"


@pytest.mark.parametrize(("tries", "outcome"), [(MAX_TRIES - 1, "SUCCEEDED"), (MAX_TRIES, "FAILED")])
def test_a_message_that_comes_back_counts_as_a_try_and_after_the_last_one_the_attempt_has_failed(
    supplier: SupplierClient, worker_resources: WorkerResources, tries: int, outcome: str
) -> None:
    waiting = wait_for_workers(supplier, 1)
    waiting.accounts[0].change(tries=tries)
    run_redelivered()
    assert waiting.outcomes() == [outcome]
    told = worker_resources.redis.lpop(signals.NOTIFICATION_KEY.format(waiting.ids[0]))
    assert (told == signals.ASK_DATABASE.encode()) == (outcome == Outcome.FAILED)


def test_others_that_wait_are_not_set_apart(supplier: SupplierClient) -> None:
    waiting = wait_for_workers(supplier, 2)
    with supplier.Session.begin() as session:
        assert set_apart(session, waiting.ids[:1]).waiting == waiting.ids[:1]
    assert waiting.tries() == [2, 1]


def test_more_than_a_set_are_announced_again(
    supplier: SupplierClient, worker_resources: WorkerResources, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attempts, "MOST_IN_SET", 2)
    waiting = wait_for_workers(supplier, 3)
    worker_resources.redis.delete("migration:interactive")
    assert tasks.create_set.run() == "2 accounts: 2 SUCCEEDED"
    assert messages(worker_resources, "accounts.create_set") == 1
    assert waiting.states() == [ImportState.IMPORTED, ImportState.IMPORTED, ImportState.IN_PROGRESS]
    assert tasks.create_set.run() == "1 account: 1 SUCCEEDED"


def test_organisations_take_turns_in_a_set(
    supplier: SupplierClient, worker_resources: WorkerResources, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One with many attempts leaves room for another one that comes later."""
    monkeypatch.setattr(attempts, "MOST_IN_SET", 4)
    many = wait_for_workers(supplier, 5)
    few = wait_for_workers(SupplierClient.create(supplier.app, supplier.Session), 2)
    with supplier.Session() as session:
        taken = [row.id for row in take_set(OpenTransaction.of(session))]
    assert taken == [many.ids[0], few.ids[0], many.ids[1], few.ids[1]]


def test_a_set_whose_worker_was_lost_is_dispatched_again_one_by_one(
    supplier: SupplierClient, worker_resources: WorkerResources
) -> None:
    waiting = wait_for_workers(supplier, 2)
    with supplier.Session() as session:
        transaction = OpenTransaction.of(session)
        assert len(create_set(transaction, take_set(transaction))) == 2
        session.rollback()  # as the database does when the connection is lost
    for account in waiting.accounts:
        account.grow_old(11)
    sweep_attempts()
    assert waiting.tries() == [2, 2]
    assert [tasks.create_set.run() for _ in range(2)] == ["1 account: 1 alone: SUCCEEDED"] * 2
    assert waiting.states() == [ImportState.IMPORTED] * 2


def test_without_redis_an_announcement_is_published_and_every_attempt_is_new() -> None:
    no_redis = make_redis("redis://127.0.0.1:1/0")  # nothing listens there
    signals.announce(no_redis, calls := Calls())
    signals.take_announcement(no_redis)
    attempt_ids = [new_id(), new_id()]
    assert signals.find_new(no_redis, attempt_ids) == set(attempt_ids)
    no_redis.close()
    assert calls.count == 1
