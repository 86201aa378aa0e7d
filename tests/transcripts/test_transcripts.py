"""The commands of each page print what the page says."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from documentation.warm_command import warm_command
from transcripts.transcript import read_or_write, run

_FOLDER = Path(__file__).parent


@pytest.fixture(scope="session")
def commands(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The folder of our commands, which have loaded what they import."""
    folder = tmp_path_factory.mktemp("commands")
    with warm_command(folder):
        yield f"{folder}:{Path(sys.executable).parent}:{os.environ['PATH']}"


@pytest.mark.parametrize("page", sorted(_FOLDER.glob("client/*.md")), ids=lambda it: it.stem)
def test_the_commands_that_need_no_service_print_what_the_page_says(
    page: Path, commands: str, tmp_path: Path
) -> None:
    environment = os.environ | {"PATH": commands, "HOME": str(tmp_path), "COLUMNS": "100"}
    # No output depends on the time zone of the machine, or on its language.
    environment |= {"TZ": "America/St_Johns", "LC_ALL": "C.UTF-8"}
    printed = run(page, tmp_path, environment)
    assert printed.splitlines() == read_or_write(page, printed).splitlines()
