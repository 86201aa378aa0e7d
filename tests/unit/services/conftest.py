"""A connection to the Valkey of the tests."""

from collections.abc import Iterator
from typing import Any

import pytest

from migration_service.config import Settings
from migration_service.connections import make_redis


@pytest.fixture
def redis(migrated: Settings) -> Iterator[Any]:
    """A connection as the service makes it, without the types of its answers."""
    client = make_redis(migrated.redis_url)
    yield client
    client.connection_pool.disconnect()
