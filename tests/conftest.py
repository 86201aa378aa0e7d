"""Servers for every test that wants them: started once, on free ports, gone at the end."""

from collections.abc import Iterator

import pytest
from flask import Flask
from sqlalchemy.orm import Session, sessionmaker

from migration_service.app import create_app
from migration_service.blueprints.resources import Resources
from migration_service.config import Settings
from migration_service.revisions import upgrade
from servers import EmbeddedServers


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
def service_settings(settings: Settings) -> Settings:
    """The settings of a service whose database has all tables."""
    upgrade(settings.database_url)
    return settings


@pytest.fixture(scope="session")
def app(service_settings: Settings) -> Iterator[Flask]:
    """The web application, for test clients."""
    app = create_app(service_settings)
    yield app
    shared: Resources = app.extensions["migration_service"]
    shared.Session.kw["bind"].dispose()
    shared.redis.close()
    shared.dispatch.waiting_redis.close()


@pytest.fixture(scope="session")
def sessions(app: Flask) -> sessionmaker[Session]:
    """Transactions on the application's database."""
    shared: Resources = app.extensions["migration_service"]
    return shared.Session
