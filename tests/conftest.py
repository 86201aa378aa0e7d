"""Servers for every test that wants them: started once, on free ports, gone at the end."""

from collections.abc import Iterator

import pytest

from migration_service.config import Settings
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
