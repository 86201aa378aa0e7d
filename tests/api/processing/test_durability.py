"""An attempt is on disk before a client is told that it runs, and otherwise together with its account."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from uuid import UUID

import psycopg
import pytest
from flask import Flask
from psycopg.sql import SQL, Identifier
from sqlalchemy.orm import Session, sessionmaker

from migration_service.config import Settings
from migration_service.services.processing.execution import perform_attempt
from migration_service.services.processing.signals import notify
from migration_service.tasks.resources import WorkerResources
from support.factories import MakeClient
from support.supplier_client import SupplierClient

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


@pytest.fixture
def make_supplier(
    migrated: Settings, make_client: MakeClient, sessions: sessionmaker[Session]
) -> Callable[[float], SupplierClient]:
    """Return a function that makes a supplier of a service that waits this many seconds for a worker."""

    def make(seconds: float) -> SupplierClient:
        application = make_client(replace(migrated, process_wait_seconds=seconds)).application
        assert isinstance(application, Flask)
        return SupplierClient.create(application, sessions)

    return make


@pytest.mark.parametrize(
    ("seconds", "prefer", "setting"), [(30, "", "off"), (30, "respond-async", "local"), (2, "", "local")]
)
def test_the_beginning_is_on_disk_before_a_client_is_told_that_the_attempt_runs(
    next_attempt: Callable[[], tuple[UUID, str]],
    make_supplier: Callable[[float], SupplierClient],
    worker_resources: WorkerResources,
    *,
    seconds: float,
    prefer: str,
    setting: str,
) -> None:
    supplier = make_supplier(seconds)
    (account,) = supplier.accounts()
    assert supplier.stage(account).status_code == 201
    with ThreadPoolExecutor() as pool:
        answer = pool.submit(supplier.process, account["external_account_number"], prefer=prefer)
        attempt_id, found = next_attempt()
        assert found == setting
        done = perform_attempt(worker_resources.Session, attempt_id)
        assert done is not None
        notify(worker_resources.redis, worker_resources.slots, {attempt_id: done.service_account_number})
        assert answer.result(30).status_code == (202 if prefer else 201)
