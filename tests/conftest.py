"""Servers for every test that wants them: started once, on free ports, gone at the end."""

import fcntl
import gc
import os
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from argon2 import PasswordHasher
from celery import current_app
from click.testing import CliRunner, Result
from flask import Flask
from hypothesis import settings as hypothesis_settings
from sqlalchemy.orm import Session, sessionmaker

from migration_service.app import create_app
from migration_service.blueprints.requests.resources import resources
from migration_service.celery_app import create_celery
from migration_service.cli import main
from migration_service.config import Settings
from migration_service.db import known_commits, reference
from migration_service.db.cancelling import is_followed
from migration_service.db.engine import make_engine, make_sessionmaker
from migration_service.loading import begin_loading, end_loading
from migration_service.services.access import operators
from migration_service.tasks.resources import WorkerResources
from support.batch_client import BatchClient
from support.commands import Run
from support.described import DescribedClient
from support.factories import Customer, close_celery, close_resources, disconnect, make_customer
from support.imported_account import ImportedAccount
from support.servers import EmbeddedServers, temporary_folder
from support.supplier_client import SEEDS, SupplierClient
from support.undo_client import UndoClient
from support.vendor_servers import SANDBOX_SECRET, SANDBOX_VARIABLE, run_sandbox
from support.wave_client import WaveClient

# A time that is read as a local one is noticed here.
os.environ["TZ"] = "America/St_Johns"
time.tzset()

# Until all tests are collected, which then takes a sixth less processor time.
begin_loading()

# The same examples at each run; MIGRATION_SERVICE_FUZZ, which asks for more of them, also asks for others.
hypothesis_settings.register_profile("the same", derandomize=True, deadline=None)
hypothesis_settings.register_profile("others", derandomize=False, deadline=None)
hypothesis_settings.load_profile("others" if os.environ.get("MIGRATION_SERVICE_FUZZ") else "the same")

#: The variable with the folder of `prepared_servers`.
_PREPARED = "PREPARED_SERVERS"
#: Fixtures that are too expensive to be made by two processes: their tests stay together.
_MADE_ONCE = (
    *("running", "book", "port", "localstripe_url", "sandbox_url", "hasty", "imported"),
    *("spoilt_servers", "unanalysed"),
)
#: The tests of the running service mostly wait, for a restart or a time-out. So two processes have one each:
#: in one of them tests cause faults, in the other they use it as its clients do.
_WITH_FAULTS = (
    *("test_limit", "test_up"),
    *("test_waves_for_real", "test_client_listen", "test_client_send"),
)
#: What takes longest begins first, so that no process is the only one that works at the end.
_LONGEST_FIRST = ("tests/e2e/test_drill.py", "tests/e2e/test_docs.py", "tests/e2e/", "tests/transcripts/")


def pytest_configure(config: pytest.Config) -> None:
    """Make a folder that the processes of pytest-xdist share, unless this is one of them."""
    if not hasattr(config, "workerinput"):
        folder = temporary_folder()
        os.environ[_PREPARED] = str(folder)
        config.add_cleanup(lambda: shutil.rmtree(folder))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Collect the tests. Then search for garbage again, but less often, and not in what was collected."""
    try:
        return (yield)
    finally:
        end_loading()
        gc.set_threshold(10_000, 20, 50)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Group the tests that share an expensive fixture, and begin with what takes longest."""
    for item in items:
        if group := _group(item):
            item.add_marker(pytest.mark.xdist_group(group))
    items.sort(key=_turn)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Fail if pytest-xdist does not see the test's group: each process would start what the group shares."""
    group = item.get_closest_marker("xdist_group")
    if group and item.config.getoption("loadgroup", False) and not item.nodeid.endswith(f"@{group.args[0]}"):
        pytest.fail(f"pytest-xdist does not keep the tests of {group.args[0]} together.", pytrace=False)


def _group(item: pytest.Item) -> str:
    """Return the group of tests that run in one process, or nothing for a test that runs in any."""
    if not isinstance(item, pytest.Function):
        return ""
    # A fixture of a single test may have the same name.
    wide = {it for it, found in item._fixtureinfo.name2fixturedefs.items() if found[-1].scope != "function"}
    if "scene" in wide:
        return "scene with faults" if item.path.stem in _WITH_FAULTS else "scene"
    return next((f"{item.path}:{name}" for name in _MADE_ONCE if name in wide), "")


def _turn(item: pytest.Item) -> int:
    """Return the place of a test: the groups of the running service, then long tests, then all others."""
    marker = item.get_closest_marker("xdist_group")
    if marker and marker.args[0].startswith("scene"):
        return -1
    turns = enumerate(_LONGEST_FIRST)
    return next((turn for turn, path in turns if item.nodeid.startswith(path)), len(_LONGEST_FIRST))


@pytest.fixture(scope="session", autouse=True)
def slow_hasher() -> Iterator[Callable[[], PasswordHasher]]:
    """Hash passwords of operators quickly in this process. Return what the service hashes them with.

    It takes a tenth of a second of both processors by design, and hundreds of tests log in.
    """
    slow, quick = operators.password_hasher, PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)
    with patch.object(operators, "password_hasher", lambda: quick):
        yield slow


@pytest.fixture(autouse=True)
def _current_celery() -> Iterator[None]:
    """Make the Celery application current again that was so before the test.

    A command makes one of its own. Tasks of later tests would run in it, and leave its connections open.
    """
    before = current_app._get_current_object()  # type: ignore[attr-defined]
    yield
    after = current_app._get_current_object()  # type: ignore[attr-defined]
    if after is not before:
        close_resources(after)
        before.set_current()


@pytest.fixture(autouse=True)
def _outside_of_requests() -> None:
    """Forget that this thread has served a request in an earlier test."""
    is_followed.set(True)


@pytest.fixture(scope="session")
def embedded_servers(prepared_servers: Path) -> Iterator[EmbeddedServers]:
    """A PostgreSQL and a Valkey that all tests share; a test that kills some makes its own."""
    with EmbeddedServers.copy_of(prepared_servers) as servers:
        yield servers


@pytest.fixture(scope="session")
def prepared_servers() -> Path:
    """A folder with the data of servers that are stopped, and whose database has its tables.

    All processes share it. Use `copy_home` or `EmbeddedServers.copy_of`.
    """
    folder = Path(os.environ[_PREPARED])
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "home").exists():
            with EmbeddedServers(folder) as servers:
                servers.upgrade()
    return folder


@pytest.fixture(scope="session")
def database_url(embedded_servers: EmbeddedServers) -> str:
    return embedded_servers.database_url


@pytest.fixture(scope="session")
def redis_url(embedded_servers: EmbeddedServers) -> str:
    return embedded_servers.redis_url


@pytest.fixture(scope="session", autouse=True)
def _quick() -> Iterator[None]:
    """Keep no callers or suppliers in memory, as tests change their rows, and wait less for a database."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reference, "KEPT_SECONDS", 0.0)
        patch.setattr(known_commits, "HOLD_SECONDS", 1.0)
        yield


@pytest.fixture(scope="session")
def settings(embedded_servers: EmbeddedServers) -> Settings:
    return Settings(
        home=embedded_servers.home.path,
        database_url=embedded_servers.database_url,
        owner_database_url=embedded_servers.owner_url,
        redis_url=embedded_servers.redis_url,
        secret_key=embedded_servers.home.secret("secret_key"),
        certificate_key="MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=",
        go_live_receipt_hours=0,  # tests of the receipt ask for one
    )


@pytest.fixture(scope="session")
def migrated(settings: Settings, embedded_servers: EmbeddedServers) -> Settings:
    """The settings of a service whose database has its tables. Its role may not change them."""
    embedded_servers.remember()
    return settings


@pytest.fixture(autouse=True)
def _nothing_left(request: pytest.FixtureRequest) -> Iterator[None]:
    """Let every test find empty servers and the same accounts: delete the rows and keys that it leaves."""
    SEEDS.restart()
    yield
    if "migrated" in request.fixturenames:
        request.getfixturevalue("embedded_servers").empty()


@pytest.fixture(scope="session")
def sessions(migrated: Settings) -> Iterator[sessionmaker[Session]]:
    """Sessions on the database that all tests share; each test makes an organisation of its own."""
    engine = make_engine(migrated.database_url, pool_size=5, max_overflow=20, application_name="tests")
    yield make_sessionmaker(engine)
    engine.dispose()


@pytest.fixture(scope="session")
def app(migrated: Settings) -> Iterator[Flask]:
    """The web application, as `wsgi.py` makes it."""
    app = create_app(migrated)
    app.test_client_class = DescribedClient
    yield app
    disconnect(app)


@pytest.fixture(scope="session")
def console_app(migrated: Settings, app: Flask) -> Iterator[Flask]:
    """The web application with the console."""
    with_console = create_app(replace(migrated, console=True))
    with_console.testing = with_console.extensions["migration_service_console"].testing = True
    with app.app_context():
        resources().celery.set_current()
    yield with_console
    disconnect(with_console)


@pytest.fixture
def run(migrated: Settings) -> Run:
    """Run `migration-service` with arguments, an input and further variables. It may fail, but not crash."""

    def run(*arguments: str, given: bytes | str | None = None, **variables: str) -> Result:
        environment = {
            "DATABASE_URL": migrated.database_url,
            "REDIS_URL": migrated.redis_url,
            "MIGRATION_SERVICE_SECRET_KEY": migrated.secret_key,
            "MIGRATION_SERVICE_HOME": "/nonexistent",
            "MIGRATION_SERVICE_GO_LIVE_RECEIPT_HOURS": "0",
            "COLUMNS": "100",
            **variables,
        }
        result = CliRunner().invoke(
            main, arguments, env=environment, input=given, prog_name="migration-service"
        )
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
        return result

    return run


@pytest.fixture(scope="session")
def worker_resources(migrated: Settings) -> Iterator[WorkerResources]:
    """The connections of a worker: with them tasks are called as plain functions."""
    celery = create_celery(migrated)
    yield celery.resources
    close_celery(celery)


@pytest.fixture(scope="session")
def kept_customers(
    sessions: sessionmaker[Session], embedded_servers: EmbeddedServers
) -> tuple[Customer, Customer]:
    """The two customers of which tests get a copy: to create others takes ten times as long."""
    with embedded_servers.keeping("customers"):
        return make_customer(sessions), make_customer(sessions)


@pytest.fixture
def customers(
    kept_customers: tuple[Customer, Customer], embedded_servers: EmbeddedServers
) -> tuple[Customer, Customer]:
    """Two organisations, each with a key, a supplier and a team."""
    embedded_servers.put_back("customers")
    return kept_customers


@pytest.fixture
def customer(customers: tuple[Customer, Customer]) -> Customer:
    return customers[0]


@pytest.fixture
def other(customers: tuple[Customer, Customer]) -> Customer:
    return customers[1]


@pytest.fixture(scope="session")
def kept_supplier(
    app: Flask, sessions: sessionmaker[Session], embedded_servers: EmbeddedServers
) -> SupplierClient:
    """The supplier of which tests get a copy: to create another one takes ten times as long."""
    with embedded_servers.keeping("supplier"):
        return SupplierClient.create(app, sessions)


@pytest.fixture
def supplier(
    request: pytest.FixtureRequest, kept_supplier: SupplierClient, embedded_servers: EmbeddedServers
) -> SupplierClient:
    """A new organisation's supplier, with a token and a team."""
    # The rows of the account are those of its supplier as well.
    embedded_servers.put_back("account" if "kept_account" in request.fixturenames else "supplier")
    return kept_supplier.copy()


@pytest.fixture
def neighbour(
    migrated: Settings, embedded_servers: EmbeddedServers, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    """Plant a neighbour of each supplier before each call of one. Fail if it is touched by that."""
    call = SupplierClient._call

    def call_beside(*arguments: Any, **named: Any) -> Any:
        embedded_servers.plant()
        answer = call(*arguments, **named)
        assert not embedded_servers.find_touched()
        return answer

    monkeypatch.setattr(SupplierClient, "_call", call_beside)
    embedded_servers.plant()
    yield
    assert not embedded_servers.find_touched()


@pytest.fixture(scope="session")
def kept_account(
    kept_supplier: SupplierClient, worker_resources: WorkerResources, embedded_servers: EmbeddedServers
) -> ImportedAccount:
    """The account of which tests get a copy."""
    with embedded_servers.keeping("account"):
        embedded_servers.put_back("supplier")
        return ImportedAccount.create(kept_supplier, worker_resources)


@pytest.fixture
def account(supplier: SupplierClient, kept_account: ImportedAccount) -> ImportedAccount:
    """An account of the supplier that was imported, with one ledger."""
    return replace(kept_account, supplier=supplier)


@pytest.fixture
def batches(supplier: SupplierClient, worker_resources: WorkerResources) -> BatchClient:
    return BatchClient(supplier, worker_resources)


@pytest.fixture(scope="session")
def sandbox_url() -> Iterator[str]:
    """The sandbox vendor as its own process. SANDBOX_VARIABLE has its secret."""
    with run_sandbox() as url, pytest.MonkeyPatch.context() as patch:
        patch.setenv(SANDBOX_VARIABLE, SANDBOX_SECRET)
        yield url


@pytest.fixture
def undos(supplier: SupplierClient) -> UndoClient:
    return UndoClient(supplier)


@pytest.fixture
def waves(batches: BatchClient) -> Iterator[WaveClient]:
    client = WaveClient(batches)
    with client.clock():
        yield client
