"""The README and the quickstart, pasted into a shell while the service runs."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from documentation.pages import ROOT, shell_blocks
from migration_service.config import load_saved_settings
from migration_service_local.servers.ports import random_free_port
from servers import RunningService, temporary_folder

_DEFAULT_ADDRESS = "http://127.0.0.1:8000"


@pytest.fixture(scope="module")
def running() -> Iterator[Path]:
    """The home folder of a service that was started as a newcomer does, with a smaller sample book."""
    home = temporary_folder() / "home"
    ports = ("--port", str(random_free_port()), "--flower-port", str(random_free_port()))
    with RunningService(home, "--sample", "5", *ports) as service:
        service.wait_until_serving()
        yield home


def _paste(page: str, home: Path) -> str:
    """Run all shell blocks of a page in one shell. Return their output. Fail if a command fails."""
    address = load_saved_settings(home)["MIGRATION_SERVICE_WEB_URL"]
    script = "\n".join(shell_blocks(ROOT / page)).replace(_DEFAULT_ADDRESS, address)
    script = script.replace("$PWD/.venv/bin", str(Path(sys.executable).parent))
    done = subprocess.run(
        ["bash", "-euc", script],
        cwd=ROOT,
        env=os.environ | {"MIGRATION_SERVICE_HOME": str(home)},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout


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
