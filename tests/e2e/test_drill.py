"""The short forms of `make drill` and `make proof`, each with a service of its own."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.console import Console

from drill.proof import KILLS, find_faults, prove
from drill.run import DrillOptions, run_drill, show
from drill.scene import Scene
from support.servers import copy_home, temporary_folder
from support.web_servers import HAPROXY

pytestmark = pytest.mark.long

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


@pytest.mark.skipif(HAPROXY is None, reason="haproxy is not installed: apt-get install haproxy")
def test_a_book_is_reconciled_in_three_ways_while_everything_is_killed(folder: Path) -> None:
    """Each way meets one kill. In `make proof` each meets all."""
    with Scene(folder) as scene:
        kills = [[kill] for kill in KILLS]
        proofs = prove(scene, folder, accounts=4_000, say=print, kills=kills)
    assert find_faults(proofs, accounts=4_000) == []
