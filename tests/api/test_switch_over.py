"""Another PostgreSQL becomes the primary server, and no request fails."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import func, make_url, select, text
from sqlalchemy.exc import ProgrammingError
from sqlalchemy.orm import Session, sessionmaker

from migration_service.celery_app import create_celery
from migration_service.config import Settings
from migration_service.db import known_commits
from migration_service.db.engine import make_engine, make_sessionmaker
from migration_service.models import AccountImportProcess, Attempt, Batch, Note
from migration_service.services.access.operators import OperatorRole
from migration_service.tasks.names import CREATE_SET
from migration_service_local.servers.ports import random_free_port
from migration_service_local.servers.process import Child, stop_children
from support.batch_client import BatchClient
from support.commands import Run
from support.commands import json_of as json_of_command
from support.console_client import ConsoleClient, make_operator
from support.factories import MakeClient, close_celery, json_of
from support.imported_account import ImportedAccount
from support.proxy import CuttingProxy
from support.servers import EmbeddedServers, wait_until
from support.supplier_client import SupplierClient


@pytest.fixture(autouse=True)
def _held_long_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known_commits, "HOLD_SECONDS", 10.0)


@pytest.fixture
def proxy(migrated: Settings) -> Iterator[CuttingProxy]:
    url = make_url(migrated.database_url)
    with CuttingProxy(str(url.host), int(url.port or 0)) as proxy:
        yield proxy


def through(proxy: CuttingProxy, url: str) -> str:
    """Return the address of the proxy instead of that of the server."""
    return make_url(url).set(port=proxy.port).render_as_string(hide_password=False)


@pytest.fixture
def behind_proxy(
    proxy: CuttingProxy, migrated: Settings, make_client: MakeClient, supplier: SupplierClient
) -> SupplierClient:
    """The supplier, whose requests reach the database through the proxy."""
    client = make_client(replace(migrated, database_url=through(proxy, migrated.database_url)))
    return replace(supplier, app=client.application)


def count(sessions: sessionmaker[Session], model: type) -> int:
    with sessions() as session:
        return session.scalar(select(func.count()).select_from(model)) or 0


@pytest.mark.parametrize("forwards", [False, True])
def test_an_account_is_staged_once(
    proxy: CuttingProxy, behind_proxy: SupplierClient, sessions: sessionmaker[Session], forwards: bool
) -> None:
    (account,) = behind_proxy.accounts()
    proxy.cut_at(b"INSERT INTO account_import_process", forwards=forwards)
    answer = behind_proxy.stage(account)
    expected = (200, "UNCHANGED") if forwards else (201, "STAGED")
    assert (answer.status_code, json_of(answer)["result"]) == expected
    assert count(sessions, AccountImportProcess) == 1


@pytest.mark.parametrize("forwards", [False, True])
def test_an_attempt_is_started_once(
    proxy: CuttingProxy, behind_proxy: SupplierClient, sessions: sessionmaker[Session], forwards: bool
) -> None:
    (number,) = behind_proxy.stage_new()
    proxy.cut_at(b"INSERT INTO attempt", forwards=forwards)
    answer = behind_proxy.process(number)
    assert (answer.status_code, json_of(answer)["attempt_id"]) == (
        202,
        str(behind_proxy.current_attempt(number)),
    )
    assert count(sessions, Attempt) == 1


@pytest.mark.parametrize("forwards", [False, True])
def test_data_is_added_once_and_the_first_answer_is_given(
    proxy: CuttingProxy,
    behind_proxy: SupplierClient,
    account: ImportedAccount,
    sessions: sessionmaker[Session],
    forwards: bool,
) -> None:
    through = replace(account, supplier=behind_proxy)
    for added, trigger in enumerate((b"INSERT INTO note", b"COMMIT"), start=1):
        proxy.cut_at(trigger, forwards=forwards)
        answer = through.post_notes({"body": f"note {added}"})
        assert (answer.status_code, json_of(answer)[0]["status"]) == (201, "NOTE_CREATION_SUCCESS")
        assert count(sessions, Note) == added


@pytest.mark.parametrize("forwards", [False, True])
def test_a_batch_is_stored_once_although_its_file_is_not_sent_again(
    proxy: CuttingProxy,
    behind_proxy: SupplierClient,
    batches: BatchClient,
    sessions: sessionmaker[Session],
    forwards: bool,
) -> None:
    proxy.cut_at(b"UPDATE batch SET request_sha256", forwards=forwards)
    batch_id = BatchClient(behind_proxy, batches.resources).start(behind_proxy.accounts(3), "validate")
    assert count(sessions, Batch) == 1
    assert batches.get(batch_id)["lines"] == 3


def test_a_token_is_obtained(proxy: CuttingProxy, behind_proxy: SupplierClient) -> None:
    proxy.cut_at(b"COMMIT", forwards=True)
    assert behind_proxy.obtain_token()


@pytest.mark.parametrize("trigger", [b"INSERT INTO account", b"COMMIT"])
def test_a_task_is_repeated_at_once(
    proxy: CuttingProxy, migrated: Settings, supplier: SupplierClient, trigger: bytes
) -> None:
    (number,) = supplier.stage_new()
    assert supplier.process(number).status_code == 202
    celery = create_celery(replace(migrated, database_url=through(proxy, migrated.database_url)))
    proxy.cut_at(trigger, forwards=False)
    celery.tasks[CREATE_SET]()
    assert json_of(supplier.status(number))["status"] == "COMPLETED"
    close_celery(celery)


def test_a_page_of_the_console_is_shown(
    proxy: CuttingProxy, migrated: Settings, make_client: MakeClient, sessions: sessionmaker[Session]
) -> None:
    address = through(proxy, migrated.database_url)
    client = make_client(replace(migrated, database_url=address, console=True))
    console = ConsoleClient(client.application)
    assert console.log_in(make_operator(sessions, OperatorRole.ADMINISTER)).status_code == 303
    proxy.cut_at(b"FROM batch", forwards=False)  # after the time of the session was renewed
    assert console.get("/batches/").status_code == 200


def test_a_command_knows_what_became_of_its_commit(proxy: CuttingProxy, migrated: Settings, run: Run) -> None:
    proxy.cut_at(b"COMMIT", forwards=True)
    done = run("limit", "set", "7", DATABASE_URL=through(proxy, migrated.database_url))
    assert done.exit_code == 0, done.output
    assert json_of_command(run("limit", "show", "--json"))["concurrency_limit"] == 7


class Standby:
    """A running standby, which replays what its primary writes."""

    def __init__(self, primary: EmbeddedServers, port: int, child: Child) -> None:
        self.primary, self.port, self.child = primary, port, child

    def address(self, of: str) -> str:
        """Return an address of the primary with the standby added. libpq chooses the one that writes."""
        name = f"127.0.0.1:{self.primary.postgres.port}"
        assert name in of
        return f"{of.replace(name, f'{name},127.0.0.1:{self.port}')}?target_session_attrs=read-write"

    def connect(self) -> psycopg.Connection:
        """Connect to the standby as the superuser."""
        url = make_url(self.primary.postgres.url).set(
            username="postgres", password=self.primary.home.secret("postgres_password"), port=self.port
        )
        return psycopg.connect(url.render_as_string(hide_password=False), autocommit=True, connect_timeout=5)

    def switch_over(self) -> None:
        """Stop the primary, which waits until the standby has everything, and promote the standby."""
        primary = self.primary.children.pop("postgres").process
        primary.send_signal(signal.SIGINT)
        primary.wait()
        with self.connect() as connection:
            connection.execute("SELECT pg_promote()")


@contextmanager
def standby_of(primary: EmbeddedServers) -> Iterator[Standby]:
    """Start a standby of this primary."""
    account, program = primary.home.account, primary.postgres.program()
    folder, port = primary.home.server_folder("standby") / "data", random_free_port()
    password = primary.home.secret("postgres_password")
    source = f"postgresql://postgres:{password}@127.0.0.1:{primary.postgres.port}/postgres"
    copied = account.run(
        [
            str(Path(program.arguments[0]).with_name("pg_basebackup")),
            *("-D", str(folder), "--write-recovery-conf", "--checkpoint=fast", "--no-sync", "-d", source),
        ],
        environment={"LC_ALL": "C"},
    )
    assert copied.returncode == 0, copied.stderr
    arguments = [
        {str(primary.postgres.data): str(folder), f"port={primary.postgres.port}": f"port={port}"}.get(it, it)
        for it in program.arguments
    ]
    own = replace(program, name="standby", arguments=arguments, folder=folder, before_start=lambda: None)
    with primary.log.open("ab") as log:
        standby = Standby(primary, port, Child(own, log))
    try:
        with primary.connect_as_superuser() as admin:
            streams = "SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming'"
            wait_until(lambda: admin.execute(streams).fetchone() == (1,), "the standby follows")
        yield standby
    finally:
        stop_children([standby.child])


@pytest.fixture
def standby(prepared_servers: Path) -> Iterator[Standby]:
    with EmbeddedServers.copy_of(prepared_servers) as servers, standby_of(servers) as standby:
        yield standby


def test_no_request_fails_while_another_server_becomes_the_primary(
    standby: Standby, settings: Settings, make_client: MakeClient
) -> None:
    address = standby.address(standby.primary.database_url)
    client = make_client(replace(settings, database_url=address, redis_url=standby.primary.redis_url))
    sessions = make_sessionmaker(make_engine(address, pool_size=1, max_overflow=2, application_name="tests"))
    supplier = SupplierClient.create(client.application, sessions)
    accounts = supplier.accounts(200)
    over, statuses = threading.Event(), []

    def stage() -> None:
        for account in accounts:
            statuses.append(supplier.stage(account).status_code)
            if over.is_set() and len(statuses) > 20:
                return

    requests = threading.Thread(target=stage)
    requests.start()
    standby.switch_over()
    over.set()
    requests.join()
    assert set(statuses) <= {200, 201}
    assert supplier.process(accounts[0]["external_account_number"]).status_code == 202
    assert client.get("/health/ready").status_code == 200
    assert count(sessions, AccountImportProcess) == len(statuses)
    sessions.kw["bind"].dispose()


def test_a_primary_that_does_not_know_that_it_was_replaced_is_not_asked(
    standby: Standby, settings: Settings, make_client: MakeClient
) -> None:
    servers = standby.primary
    with CuttingProxy("127.0.0.1", servers.postgres.port) as proxy:
        address = through(proxy, servers.database_url)
        client = make_client(replace(settings, database_url=address, redis_url=servers.redis_url))
        sessions = make_sessionmaker(
            make_engine(address, pool_size=1, max_overflow=2, application_name="tests")
        )
        supplier = SupplierClient.create(client.application, sessions)
        sessions.kw["bind"].dispose()
        with servers.connect_as_superuser() as old, standby.connect() as new:
            wait_until(lambda: _has_everything(new, old), "the standby has everything")
            new.execute("SELECT pg_promote()")
            _lead_to(proxy, standby.port, old)
            (number,) = supplier.stage_new()
            _lead_to(proxy, servers.postgres.port, new)
            accepted, statuses = proxy.accepted, []
            asking = threading.Thread(target=lambda: statuses.append(supplier.status(number).status_code))
            asking.start()
            wait_until(lambda: statuses or proxy.accepted > accepted + 1, "another connection is tried")
            proxy.forward_to(standby.port)
            asking.join()
    assert statuses == [200]


def _has_everything(standby: psycopg.Connection, primary: psycopg.Connection) -> bool:
    written = primary.execute("SELECT pg_current_wal_insert_lsn()").fetchone()
    return standby.execute("SELECT pg_last_wal_replay_lsn() >= %s", written).fetchone() == (True,)


def _lead_to(proxy: CuttingProxy, port: int, before: psycopg.Connection) -> None:
    """Lead new connections to another server, and end those to the one before."""
    proxy.forward_to(port)
    before.execute(
        "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE usename = 'migration_service'"
    )


def test_a_server_that_does_not_tell_its_timeline_is_used(standby: Standby) -> None:
    standby.switch_over()
    with standby.connect() as admin:
        wait_until(lambda: admin.execute("SELECT pg_is_in_recovery()").fetchone() == (False,), "promoted")
        admin.execute("REVOKE EXECUTE ON FUNCTION pg_control_system() FROM public")
    address = standby.address(standby.primary.database_url)
    engine = make_engine(address, pool_size=1, max_overflow=0, application_name="tests")
    with engine.connect() as connection:
        assert connection.scalar(select(1)) == 1
        with pytest.raises(ProgrammingError, match="InsufficientPrivilege"):
            connection.execute(text("SELECT pg_control_system()"))
    engine.dispose()
