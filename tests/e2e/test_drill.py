"""The short form of `make drill`: three faults of the whole service under load, then the checks."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.console import Console

from drill.run import DrillOptions, run_drill, show
from support.servers import copy_home, temporary_folder

FAULTS = ("worker child killed", "Valkey killed, data wiped", "PostgreSQL killed")


@pytest.fixture
def folder(prepared_servers: Path) -> Iterator[Path]:
    folder = temporary_folder()
    copy_home(prepared_servers, folder)
    yield folder
    shutil.rmtree(folder)


def test_nothing_is_lost_or_doubled_while_parts_are_killed_and_wiped(folder: Path) -> None:
    options = DrillOptions(rounds=len(FAULTS), accounts=60, poisoned=1, only=FAULTS, pause=0.4)
    console = Console(width=160)
    verdict = run_drill(options, folder, console)
    show(verdict, options, console)
    assert verdict.created >= options.accounts
    assert verdict.journal.lines
    assert verdict.poison_kills >= 1
    assert verdict.losses == 0
