"""The whole service with its real processes, for tests with load, faults and restarts."""

import shutil
from collections.abc import Iterator

import pytest

from drill.scene import Scene
from servers import temporary_folder

#: How long a client may take to send a request.
REQUEST_SECONDS = 3.0


@pytest.fixture(scope="session")
def scene() -> Iterator[Scene]:
    """One running service for all tests. Each leaves it running and idle, with the limit at 250.

    It logs everything, so that tests can search the log for values that must not be there. It waits only a
    short time for clients that send slowly.
    """
    folder = temporary_folder()
    environment = {
        "MIGRATION_SERVICE_LOG_LEVEL": "DEBUG",
        "MIGRATION_SERVICE_REQUEST_SECONDS": str(REQUEST_SECONDS),
    }
    with Scene(folder, environment=environment) as scene:
        yield scene
    shutil.rmtree(folder)
