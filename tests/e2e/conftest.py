"""The whole service, with its real processes, for the tests that load, damage and restart it."""

import shutil
from collections.abc import Iterator

import pytest

from drill.scene import Scene
from servers import temporary_folder


@pytest.fixture(scope="session")
def scene() -> Iterator[Scene]:
    """One running service for all tests; each leaves it running and quiet, with the limit at 250.

    It logs everything, so that the log can be searched for what does not belong there.
    """
    folder = temporary_folder()
    with Scene(folder, environment={"MIGRATION_SERVICE_LOG_LEVEL": "DEBUG"}) as scene:
        yield scene
    shutil.rmtree(folder)
