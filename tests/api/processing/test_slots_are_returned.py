"""A request without an account releases its slot, and an attempt is on disk before a client is told of it."""

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, cast
from unittest.mock import patch
from uuid import UUID

import psycopg
import pytest
from psycopg.sql import SQL, Identifier
from sqlalchemy import delete, select, text, update
from sqlalchemy.orm import Session, sessionmaker
from werkzeug.test import TestResponse

from migration_service.blueprints.requests.resources import resources
from migration_service.config import Settings
from migration_service.db.sql import OpenTransaction
from migration_service.models import Account, AccountImportProcess, Attempt
from migration_service.services.imports import states
from migration_service.services.processing.attempts import run_attempt
from migration_service.services.processing.execution import perform_attempt
from migration_service.services.processing.signals import ANNOUNCED_KEY, notify
from migration_service.states import ImportState, Outcome
from migration_service.tasks.resources import WorkerResources
from support.factories import MakeClient, json_of
from support.servers import wait_until
from support.supplier_client import SupplierClient


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor() as pool:
        yield pool


@contextmanager
def changed_dispatch(supplier: SupplierClient, **changes: Any) -> Iterator[None]:
    """Let the service hand its attempts to workers in another way."""
    with supplier.app.app_context():
        shared = resources()
    changed = replace(shared, dispatch=replace(shared.dispatch, **changes))
    supplier.app.extensions["migration_service"] = changed
    try:
        yield
    finally:
        supplier.app.extensions["migration_service"] = shared


def attempts_of(supplier: SupplierClient, number: str) -> list[Attempt]:
    with supplier.Session() as session:
        process = select(AccountImportProcess.id).where(supplier.process_of(number)).scalar_subquery()
        return list(session.scalars(select(Attempt).where(Attempt.account_import_process_id == process)))


def held(resources: WorkerResources) -> set[bytes]:
    """Return the attempts that hold a slot."""
    return set(cast(list[bytes], resources.redis.zrange("migration:slots", 0, -1)))


def test_without_a_worker_in_time_the_answer_is_429_and_the_attempt_is_withdrawn(
    supplier: SupplierClient, worker_resources: WorkerResources
) -> None:
    number = supplier.stage_new()[0]
    before = held(worker_resources)
    with changed_dispatch(supplier, wait_seconds=0.1):
        answer = supplier.process(number, prefer="")
    assert (answer.status_code, json_of(answer)["code"]) == (429, "no_worker_available")
    assert answer.headers["Retry-After"]
    assert held(worker_resources) == before
    (attempt,) = attempts_of(supplier, number)
    assert (attempt.outcome, attempt.error_code) == (Outcome.WITHDRAWN, None)
    assert supplier.status(number).json == {"status": "UNKNOWN", "service_account_number": ""}
    assert perform_attempt(worker_resources.Session, attempt.id) is None
    with supplier.Session() as session:
        assert session.scalars(select(Account).where(Account.external_account_number == number)).all() == []
    assert supplier.process(number).status_code == 202


@pytest.mark.parametrize("dry_run", [False, True])
def test_a_request_that_waits_announces_its_attempt_again(
    supplier: SupplierClient, worker_resources: WorkerResources, *, dry_run: bool
) -> None:
    number = supplier.stage_new()[0]
    announced: list[None] = []
    with changed_dispatch(supplier, wait_seconds=2.5, publish=lambda: announced.append(None)):
        assert supplier.process(number, prefer="", dry_run=dry_run).status_code == 429
        assert len(announced) > 1
        announced.clear()
        worker_resources.redis.delete(ANNOUNCED_KEY)
        assert supplier.process(number, dry_run=dry_run).status_code == 202
        assert len(announced) == 1


def test_an_attempt_that_ends_when_the_time_is_up_is_answered_with_its_number(
    supplier: SupplierClient, worker_resources: WorkerResources
) -> None:
    number = supplier.stage_new()[0]

    def create() -> None:
        perform_attempt(worker_resources.Session, supplier.current_attempt(number))

    worker_resources.redis.delete(ANNOUNCED_KEY)
    with changed_dispatch(supplier, wait_seconds=0.0, publish=create):
        answer = supplier.process(number, prefer="")
    assert answer.status_code == 201
    status = {"status": "COMPLETED", "service_account_number": json_of(answer)["service_account_number"]}
    assert supplier.status(number).json == status


def test_an_account_that_is_pending_again_after_it_could_not_begin_is_answered_as_in_progress(
    supplier: SupplierClient, worker_resources: WorkerResources
) -> None:
    """It was skipped just when the attempt was to begin, and not any more when the request asks why."""
    number = supplier.stage_new()[0]
    before = held(worker_resources)

    def begin_too_late(*args: Any, **named: Any) -> bool:
        _change(supplier, number, ImportState.SKIPPED)
        started = begin(*args, **named)
        _change(supplier, number, ImportState.PENDING)
        return started

    begin = states.start
    with patch.object(states, "start", begin_too_late):
        answer = supplier.process(number)
    assert (answer.status_code, json_of(answer)["code"]) == (400, "account_import_in_progress")
    assert held(worker_resources) == before
    assert attempts_of(supplier, number) == []


def _change(supplier: SupplierClient, number: str, state: ImportState) -> None:
    with supplier.Session.begin() as session:
        session.execute(update(AccountImportProcess).where(supplier.process_of(number)).values(state=state))


def test_an_attempt_that_runs_when_the_time_is_up_is_answered_202_and_keeps_its_slot(
    supplier: SupplierClient, worker_resources: WorkerResources
) -> None:
    number = supplier.stage_new()[0]
    worker_resources.redis.delete(ANNOUNCED_KEY)
    with supplier.Session() as session:
        running: list[states.EndedAttempt | None] = []

        def start() -> None:
            running.append(run_attempt(OpenTransaction.of(session), supplier.current_attempt(number)))

        with changed_dispatch(supplier, wait_seconds=0.0, publish=start):
            answer = supplier.process(number, prefer="")
        (created,) = running
        assert created
        assert answer.status_code == 202
        assert "Preference-Applied" not in answer.headers
        attempt_id = supplier.current_attempt(number)
        assert str(attempt_id).encode() in held(worker_resources)
        session.commit()
    status = supplier.status(number).json
    assert status == {"status": "COMPLETED", "service_account_number": created.service_account_number}
    worker_resources.slots.release([str(attempt_id)])


def _process_while_locked(
    supplier: SupplierClient, number: str, session: Session, pool: ThreadPoolExecutor
) -> "Future[TestResponse]":
    """Skip the account in an open transaction, and process it. The request waits for the lock."""
    session.execute(
        update(AccountImportProcess).where(supplier.process_of(number)).values(state=ImportState.SKIPPED)
    )
    answer = pool.submit(supplier.process, number)
    wait_until(lambda: _waiting(supplier), "the request waits for the lock")
    return answer


def _waiting(supplier: SupplierClient) -> list[int]:
    """Return the sessions of web servers that wait for a lock."""
    with supplier.Session() as session:
        return list(
            session.scalars(
                text(
                    "SELECT pid FROM pg_stat_activity "
                    "WHERE wait_event_type = 'Lock' AND application_name = 'migration-web'"
                )
            )
        )


def test_a_request_for_an_account_that_changed_meanwhile_releases_its_slot(
    supplier: SupplierClient, worker_resources: WorkerResources, pool: ThreadPoolExecutor
) -> None:
    number = supplier.stage_new()[0]
    before = held(worker_resources)
    with supplier.Session() as session:
        answer = _process_while_locked(supplier, number, session, pool)
        assert len(held(worker_resources) - before) == 1
        session.commit()
    refused = answer.result(30)
    assert (refused.status_code, json_of(refused)["code"]) == (400, "account_marked_to_skip")
    assert held(worker_resources) == before
    assert attempts_of(supplier, number) == []


def test_a_request_whose_connection_is_lost_at_its_beginning_releases_its_slot(
    supplier: SupplierClient, worker_resources: WorkerResources, pool: ThreadPoolExecutor
) -> None:
    number = supplier.stage_new()[0]
    before = held(worker_resources)
    with supplier.Session() as session:
        answer = _process_while_locked(supplier, number, session, pool)
        (pid,) = _waiting(supplier)
        session.execute(text("SELECT pg_terminate_backend(:pid)"), {"pid": pid})
        refused = answer.result(30)
        session.rollback()
    assert (refused.status_code, json_of(refused)["code"]) == (503, "service_unavailable")
    assert held(worker_resources) == before
    assert attempts_of(supplier, number) == []


def test_a_request_whose_attempt_a_crash_of_the_database_has_undone_starts_another_one(
    supplier: SupplierClient, worker_resources: WorkerResources, pool: ThreadPoolExecutor
) -> None:
    number = supplier.stage_new()[0]
    before = held(worker_resources)
    waiting = pool.submit(supplier.process, number, prefer="")
    wait_until(lambda: attempts_of(supplier, number), "the attempt began")
    attempt_id = supplier.current_attempt(number)
    with supplier.Session.begin() as session:
        undone = {"state": ImportState.PENDING, "attempt_id": None, "dispatched_at": None, "tries": 0}
        session.execute(update(AccountImportProcess).where(supplier.process_of(number)).values(undone))
        session.execute(delete(Attempt).where(Attempt.id == attempt_id))
    wait_until(lambda: supplier.is_in_progress(number), "another attempt began")
    assert supplier.work(worker_resources, number) != str(attempt_id)
    assert waiting.result(30).status_code == 201
    assert held(worker_resources) == before


# A test that was killed may have left the function and the trigger.
_NOTE = """
    CREATE OR REPLACE FUNCTION note_commit() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            PERFORM pg_notify('commits', NEW.id || ' ' || current_setting('synchronous_commit'));
            RETURN NULL;
        END $$;
    CREATE OR REPLACE TRIGGER note_commit AFTER INSERT ON attempt FOR EACH ROW EXECUTE FUNCTION note_commit();
    LISTEN commits;
"""
_FORGET = "DROP TRIGGER note_commit ON attempt; DROP FUNCTION note_commit();"


@pytest.fixture
def next_attempt(migrated: Settings) -> Iterator[Callable[[], tuple[UUID, str]]]:
    """Return a function that waits for the next attempt, and returns its id and how it is committed."""
    with psycopg.connect(migrated.owner_database_url, autocommit=True) as owner:
        # The tests' own server never waits for its disk otherwise. New connections do now.
        database = Identifier(owner.info.dbname)
        owner.execute(SQL("ALTER DATABASE {} SET synchronous_commit = local").format(database))
        owner.execute(_NOTE)

        def wait() -> tuple[UUID, str]:
            (notice,) = owner.notifies(timeout=30, stop_after=1)
            attempt_id, setting = notice.payload.split()
            return UUID(attempt_id), setting

        yield wait
        owner.execute(_FORGET)
        owner.execute(SQL("ALTER DATABASE {} RESET synchronous_commit").format(database))


@pytest.mark.parametrize(
    ("seconds", "prefer", "setting"), [(30, "", "off"), (30, "respond-async", "local"), (4.9, "", "local")]
)
def test_the_beginning_is_on_disk_before_a_client_is_told_that_the_attempt_runs(
    *,
    next_attempt: Callable[[], tuple[UUID, str]],
    migrated: Settings,
    make_client: MakeClient,
    sessions: sessionmaker[Session],
    worker_resources: WorkerResources,
    seconds: float,
    prefer: str,
    setting: str,
) -> None:
    application = make_client(replace(migrated, process_wait_seconds=seconds)).application
    supplier = SupplierClient.create(application, sessions)
    (number,) = supplier.stage_new()
    with ThreadPoolExecutor() as pool:
        answer = pool.submit(supplier.process, number, prefer=prefer)
        attempt_id, found = next_attempt()
        assert found == setting
        done = perform_attempt(worker_resources.Session, attempt_id)
        assert done is not None
        notify(worker_resources.redis, worker_resources.slots, {attempt_id: done.service_account_number})
        assert answer.result(30).status_code == (202 if prefer else 201)
