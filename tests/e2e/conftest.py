"""The whole service with its real processes, for tests with load, faults and restarts."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from drill.scene import LIMIT, Scene
from e2e.condition import find_faults, settings_of
from support.browser import open_browser
from support.servers import copy_home, temporary_folder


@pytest.fixture(scope="session")
def scene(prepared_servers: Path) -> Iterator[Scene]:
    """One running service for all tests of a process. Each leaves it running and idle, with the limit at 250.

    It logs everything, so that tests can search the log for values that must not be there. Requests wait for
    longer than usual, because a machine that runs five tests at once may stop for some time.
    """
    folder = temporary_folder()
    copy_home(prepared_servers, folder)
    environment = {"MIGRATION_SERVICE_LOG_LEVEL": "DEBUG", "MIGRATION_SERVICE_PROCESS_WAIT_SECONDS": "60"}
    with Scene(folder, environment=environment) as scene:
        yield scene
    shutil.rmtree(folder)


@pytest.fixture(scope="session")
def settings_at_first(scene: Scene) -> dict[str, str]:
    """What was set up in the scene before the first test."""
    return settings_of(scene)


@pytest.fixture(autouse=True)
def _as_it_was(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail the test that leaves the scene in another condition, instead of those that come after it."""
    if "scene" not in request.fixturenames:
        yield
        return
    scene: Scene = request.getfixturevalue("scene")
    settings: dict[str, str] = request.getfixturevalue("settings_at_first")
    yield
    if faults := find_faults(scene, settings):
        scene.set_limit(LIMIT)
        settings.clear()
        settings.update(settings_of(scene))
        pytest.fail(f"The test leaves the scene in another condition: {'; '.join(faults)}.")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with open_browser() as browser:
        yield browser
