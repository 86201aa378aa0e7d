"""Servers for every test that wants them: started once, on free ports, gone at the end."""

from collections.abc import Iterator

import pytest
from flask import Flask
from sqlalchemy.orm import Session, sessionmaker

from described import DescribedClient
from factories import disconnect
from migration_service.app import create_app
from migration_service.celery_app import create_celery
from migration_service.config import Settings
from migration_service.db.engine import make_engine, make_sessionmaker
from migration_service.db.revisions import upgrade
from migration_service.tasks.app import WorkerResources
from servers import EmbeddedServers
from supplier_client import SupplierClient


@pytest.fixture(scope="session")
def embedded_servers() -> Iterator[EmbeddedServers]:
    """A PostgreSQL and a Valkey that all tests share; a test that kills some makes its own."""
    with EmbeddedServers() as servers:
        yield servers


@pytest.fixture(scope="session")
def database_url(embedded_servers: EmbeddedServers) -> str:
    """The address of an empty database."""
    return embedded_servers.database_url


@pytest.fixture(scope="session")
def redis_url(embedded_servers: EmbeddedServers) -> str:
    """The address of an empty Valkey."""
    return embedded_servers.redis_url


@pytest.fixture(scope="session")
def settings(embedded_servers: EmbeddedServers) -> Settings:
    """The settings of a service on these servers; everything else as it is by default."""
    return Settings(
        home=embedded_servers.home.path,
        database_url=embedded_servers.database_url,
        redis_url=embedded_servers.redis_url,
        secret_key=embedded_servers.home.secret("secret_key"),
    )


@pytest.fixture(scope="session")
def migrated(settings: Settings) -> Settings:
    """The settings of a service whose database has its tables."""
    upgrade(settings.database_url)
    return settings


@pytest.fixture(scope="session")
def sessions(migrated: Settings) -> Iterator[sessionmaker[Session]]:
    """Sessions on the database that all tests share; each test makes an organisation of its own."""
    engine = make_engine(migrated.database_url, pool_size=5, max_overflow=20, application_name="tests")
    yield make_sessionmaker(engine)
    engine.dispose()


@pytest.fixture(scope="session", name="Session")
def _sessions_by_their_name_in_the_service(sessions: sessionmaker[Session]) -> sessionmaker[Session]:
    """The same."""
    return sessions


@pytest.fixture(scope="session")
def app(migrated: Settings) -> Iterator[Flask]:
    """The web application, as `wsgi.py` makes it."""
    app = create_app(migrated)
    app.test_client_class = DescribedClient
    yield app
    disconnect(app)


@pytest.fixture(scope="session")
def worker_resources(migrated: Settings) -> Iterator[WorkerResources]:
    """The connections of a worker: with them tasks are called as plain functions."""
    resources = create_celery(migrated).resources
    yield resources
    resources.Session.kw["bind"].dispose()
    resources.redis.connection_pool.disconnect()


@pytest.fixture
def supplier(app: Flask, sessions: sessionmaker[Session]) -> SupplierClient:
    """A new organisation's supplier, with a token and a team."""
    return SupplierClient.create(app, sessions)
