"""The whole service, with its real processes, for the tests that load, damage and restart it."""

import shutil
from collections.abc import Iterator

import pytest

from drill.scene import Scene
from servers import temporary_folder

#: How long a client of the service here may take for sending a request.
REQUEST_SECONDS = 3.0


@pytest.fixture(scope="session")
def scene() -> Iterator[Scene]:
    """One running service for all tests; each leaves it running and quiet, with the limit at 250.

    It logs everything, so that the log can be searched for what does not belong there, and has little
    waiting time for clients that send slowly.
    """
    folder = temporary_folder()
    environment = {
        "MIGRATION_SERVICE_LOG_LEVEL": "DEBUG",
        "MIGRATION_SERVICE_REQUEST_SECONDS": str(REQUEST_SECONDS),
    }
    with Scene(folder, environment=environment) as scene:
        yield scene
    shutil.rmtree(folder)
