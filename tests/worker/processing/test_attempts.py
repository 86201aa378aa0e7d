"""An attempt is published again, counted, failed or withdrawn, and holds its slot meanwhile."""

from collections.abc import Iterable, Iterator
from typing import Any
from unittest.mock import patch
from uuid import UUID

import pytest
from sqlalchemy import update
from sqlalchemy.orm import Session as OrmSession

from migration_service.connections import make_redis
from migration_service.db.base import new_id
from migration_service.db.sql import OpenTransaction
from migration_service.errors import AccountCreationFailedError, ServiceUnavailableError
from migration_service.models import Attempt, BatchChunk
from migration_service.services.processing import attempts
from migration_service.services.processing import slots as slots_module
from migration_service.services.processing.attempts import (
    GIVEN_AGAIN_AFTER,
    MAX_TRIES,
    SetApart,
    fail_attempt,
    set_apart,
    take_alone,
    withdraw_attempt,
)
from migration_service.services.processing.execution import perform_alone, perform_attempt
from migration_service.services.processing.signals import ANNOUNCED_KEY, ASK_DATABASE, NOTIFICATION_KEY
from migration_service.services.processing.slots import (
    LiveAttempt,
    Slots,
    SlotsStaleError,
    acquire_slots,
    list_live_attempts,
    reconcile_slots,
)
from migration_service.states import ImportState, Outcome
from migration_service.tasks.maintenance import sweep_attempts
from migration_service.tasks.resources import WorkerResources
from support.batch_client import BatchClient
from support.supplier_client import SupplierClient
from worker.processing.begun import Begun, begin, run_redelivered


@pytest.fixture
def begun(supplier: SupplierClient) -> Begun:
    [account] = supplier.accounts()
    return begin(supplier, account)


@pytest.fixture
def session(supplier: SupplierClient) -> Iterator[OrmSession]:
    with supplier.Session() as session:
        yield session


def take(session: OrmSession, *served: int) -> UUID | None:
    """Take the next attempt that runs alone."""
    taken = take_alone(OpenTransaction.of(session), served)
    session.commit()
    return taken.id if taken else None


def lost(session: OrmSession) -> SetApart:
    """Set apart what the sweep would."""
    apart = set_apart(session, age=GIVEN_AGAIN_AFTER)
    session.commit()
    return apart


@pytest.mark.parametrize("seconds", [10.5, -3_600])
def test_an_attempt_without_a_worker_is_given_out_again_after_ten_seconds_or_if_the_clock_was_set_back(
    begun: Begun, session: OrmSession, seconds: float
) -> None:
    begun.grow_old(9.5)
    assert lost(session) == SetApart([], [])
    begun.grow_old(seconds)
    assert lost(session) == SetApart([begun.attempt_id], [])
    process = begun.process()
    assert (process.tries, process.runs_alone, process.dispatched_at) == (2, True, None)
    assert lost(session) == SetApart([], []), "it waits for its turn, however long that takes"
    assert take(session) == begun.attempt_id
    assert lost(session) == SetApart([], []), "its ten seconds start again"
    assert take(session) is None
    begun.grow_old()
    assert lost(session) == SetApart([begun.attempt_id], [])
    assert begun.process().tries == 3


def test_organisations_take_turns_with_what_runs_alone(
    supplier: SupplierClient, session: OrmSession, worker_resources: WorkerResources
) -> None:
    """One with many attempts delays another one by one attempt in each round."""
    other = SupplierClient.create(supplier.app, supplier.Session)
    ids: dict[str, list[UUID]] = {supplier.code: [], other.code: []}
    for client, count in ((supplier, 3), (other, 2)):
        for account in client.accounts(count):
            client.stage(account)
            client.process(number := account["external_account_number"], dry_run=True)
            ids[client.code].append(client.current_attempt(number))
    many, few = ids.values()
    worker_resources.redis.delete("migration:interactive")
    announced: list[None] = []
    rounds = []
    for _ in range(4):
        worker_resources.redis.delete(ANNOUNCED_KEY)
        done = perform_alone(
            worker_resources.Session, worker_resources.redis, publish=lambda: announced.append(None)
        )
        rounds.append([it.attempt.id for it in done])
    assert rounds == [[many[0], few[0]], [many[1], few[1]], [many[2]], []]
    assert len(announced) == 2
    with supplier.Session() as found:
        outcomes = [found.get_one(Attempt, id_).outcome for id_ in [*many, *few]]
    assert outcomes == [Outcome.DRY_RUN_SUCCEEDED] * 5


def test_the_sweep_fails_an_attempt_out_of_tries_and_notifies_the_request(
    begun: Begun, worker_resources: WorkerResources
) -> None:
    begun.change(tries=MAX_TRIES)
    begun.grow_old()
    assert worker_resources.slots.acquire([str(begun.attempt_id)], owner=1, limit=None)
    sweep_attempts()
    attempt = begun.attempt()
    assert (attempt.outcome, attempt.error_code) == (Outcome.FAILED, "account_creation_failed")
    assert attempt.error_detail == "Given up after 5 tries: the worker or its connection ended each time."
    assert begun.process().state == ImportState.PENDING
    assert worker_resources.redis.lpop(NOTIFICATION_KEY.format(begun.attempt_id)) == ASK_DATABASE.encode()
    assert worker_resources.redis.zscore("migration:slots", str(begun.attempt_id)) is None


def test_the_sweep_announces_again_and_renews_the_lease(
    begun: Begun, worker_resources: WorkerResources
) -> None:
    begun.grow_old()
    worker_resources.slots.release([str(begun.attempt_id)])
    worker_resources.redis.delete("migration:interactive", "migration:announced")
    sweep_attempts()
    assert begun.process().tries == 2
    assert worker_resources.redis.zscore("migration:slots", str(begun.attempt_id))
    assert worker_resources.redis.llen("migration:interactive") == 1
    worker_resources.redis.delete("migration:interactive", "migration:announced")
    sweep_attempts()
    assert worker_resources.redis.llen("migration:interactive") == 1, "it is announced until it is taken"
    assert begun.process().tries == 2


def test_a_message_that_is_redelivered_after_the_account_was_created_does_nothing(
    begun: Begun, worker_resources: WorkerResources
) -> None:
    assert perform_attempt(worker_resources.Session, begun.attempt_id)
    before = begun.process().service_account_number
    for _ in range(MAX_TRIES + 1):
        run_redelivered()
    after = begun.process()
    assert (after.state, after.service_account_number, after.tries) == (ImportState.IMPORTED, before, 1)
    assert begun.attempt().outcome == Outcome.SUCCEEDED


def test_an_older_attempt_does_nothing_once_another_one_has_begun(
    begun: Begun, session: OrmSession, worker_resources: WorkerResources
) -> None:
    assert withdraw_attempt(OpenTransaction.of(session), begun.attempt_id)
    session.commit()
    assert begun.supplier.process(begun.number).status_code == 202
    assert not perform_attempt(worker_resources.Session, begun.attempt_id)
    assert not withdraw_attempt(OpenTransaction.of(session), begun.attempt_id)
    assert not fail_attempt(
        OpenTransaction.of(session), begun.attempt_id, AccountCreationFailedError("too late")
    )
    newer = begun.supplier.current_attempt(begun.number)
    assert newer != begun.attempt_id
    assert perform_attempt(worker_resources.Session, newer)


def test_a_failure_of_the_infrastructure_leaves_the_attempt_in_progress(
    begun: Begun, worker_resources: WorkerResources, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fall_over(*_: Any) -> Any:
        raise ConnectionError("the database went away")

    monkeypatch.setattr(attempts, "values_of", fall_over)
    with pytest.raises(ConnectionError):
        perform_attempt(worker_resources.Session, begun.attempt_id)
    assert begun.process().state == ImportState.IN_PROGRESS
    assert begun.attempt().outcome is None
    assert begun.process().tries == 1
    monkeypatch.undo()
    assert perform_attempt(worker_resources.Session, begun.attempt_id)


def test_no_slot_is_restored_for_an_attempt_that_ends_while_the_slots_are_compared(
    begun: Begun, session: OrmSession, worker_resources: WorkerResources
) -> None:
    name = str(begun.attempt_id)

    class Meanwhile(Slots):
        def reconcile(self, live: Iterable[LiveAttempt]) -> list[str]:
            read = list(live)
            assert name in {attempt.id for attempt in read}
            perform_attempt(worker_resources.Session, begun.attempt_id)
            self.release([name])
            return super().reconcile(read)

    reconcile_slots(session, Meanwhile(worker_resources.redis))
    assert worker_resources.redis.zscore("migration:slots", name) is None


def test_two_workers_take_two_attempts_that_run_alone(supplier: SupplierClient, session: OrmSession) -> None:
    for account in supplier.accounts(2):
        supplier.stage(account)
        supplier.process(account["external_account_number"], dry_run=True)
    with supplier.Session() as other:
        taken = [take_alone(OpenTransaction.of(it), ()) for it in (session, other)]
        other.rollback()
    session.rollback()
    assert len({it.id for it in taken if it}) == 2


_STATE = "migration:slots:state"


def test_slots_that_redis_lost_are_restored_before_another_one_is_acquired(
    begun: Begun, worker_resources: WorkerResources
) -> None:
    redis = worker_resources.redis
    redis.delete("migration:slots", _STATE)
    redis.hset(_STATE, "admit_from", 0)
    attempt = new_id()
    sessions, slots = worker_resources.Session, worker_resources.slots
    owner = begun.supplier.organisation_id()
    assert acquire_slots(sessions, slots, [attempt], owner=owner, limit=2) == [attempt]
    held = redis.zrange("migration:slots", 0, -1)
    assert set(held) == {str(begun.attempt_id).encode(), str(attempt).encode()}


def test_without_slots_that_can_be_restored_the_service_is_unavailable(
    worker_resources: WorkerResources,
) -> None:
    sessions, redis = worker_resources.Session, worker_resources.redis
    redis.delete(_STATE)
    redis.hset(_STATE, "admit_from", redis.time()[0] * 1_000 + 1_000_000)
    with patch.object(slots_module, "RESTORE_TIMEOUT", 0.2), pytest.raises(ServiceUnavailableError):
        acquire_slots(sessions, worker_resources.slots, [new_id()], owner=1, limit=2)

    class Lost(Slots):
        def acquire(self, *_args: object, **_limits: object) -> int:
            raise SlotsStaleError

    with make_redis("redis://127.0.0.1:1/0") as none:
        for slots in (Slots(none), Lost(none)):
            with pytest.raises(ServiceUnavailableError):
                acquire_slots(sessions, slots, [new_id()], owner=1, limit=2)


def test_attempts_of_requests_and_of_chunks_that_create_accounts_hold_slots(
    begun: Begun, worker_resources: WorkerResources
) -> None:
    supplier, sessions = begun.supplier, worker_resources.Session
    batches = BatchClient(supplier, worker_resources)
    accounts = supplier.accounts(2)
    attempts = {
        batches.start(accounts, mode): [new_id(), new_id()] for mode in ("import", "dry-run", "validate")
    }
    attempts[batches.start([{}], kind="notes")] = [new_id()]
    attempts[batches.start(accounts, "import")] = []
    batches.dispatch()
    with sessions.begin() as session:
        for batch_id, of_chunk in attempts.items():
            chunk = update(BatchChunk).where(BatchChunk.batch_id == UUID(batch_id))
            session.execute(chunk.values(attempts=of_chunk or None))
    created, rehearsed, *_ = attempts.values()
    owner = supplier.organisation_id()
    expected = [
        LiveAttempt(str(begun.attempt_id), owner),
        *(LiveAttempt(str(it), owner, batch=True) for it in created + rehearsed),
    ]
    with sessions() as session:
        live = list_live_attempts(session)
        assert sorted(live, key=lambda it: it.id) == sorted(expected, key=lambda it: it.id)
        worker_resources.redis.delete("migration:slots", "migration:slots:owners")
        reconcile_slots(session, worker_resources.slots)
    owners = worker_resources.redis.hgetall("migration:slots:owners")
    assert owners == {
        str(it.id).encode(): f"{owner} {'batch' if it.batch else 'request'}".encode() for it in expected
    }
    assert worker_resources.slots.in_use() == 5
