"""What every measure needs: the running stack, the prepared requests, and the time to measure."""

import json
import os
import statistics
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from sqlalchemy.orm import Session, sessionmaker

from benchmarks.seed import sessions, stage_copies
from benchmarks.stack import PROCESSES, Stack, peer_environment, peers_python
from benchmarks.wrk import Load, run_wrk
from migration_service.celery_app import create_celery
from migration_service.tasks.app import MigrationCelery

STAGE = "/v1/data-import/account-import-process/create-or-update/"
PROCESS = "/v1/data-import/account-import-process/process/"


@dataclass(frozen=True, slots=True)
class Extent:
    """How much is measured. `quick` takes less time and is less precise."""

    rounds: int
    seconds: float
    #: Accounts of a batch, and accounts that already exist in the large case.
    batch: int
    filled: int


FULL = Extent(rounds=5, seconds=6, batch=5_000, filled=1_000_000)
QUICK = Extent(rounds=2, seconds=2, batch=1_000, filled=100_000)


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table: a goal and its measurement."""

    what: str
    ours: float
    unit: str
    goal: str
    reached: bool
    #: What it is compared with, in the same unit, or None if the goal is a plain number.
    peer: float | None = None
    peer_name: str = ""
    #: Further values, for the JSON file.
    more: dict[str, Any] = field(default_factory=dict)


@dataclass
class Bench:
    """A run of the benchmarks."""

    stack: Stack
    extent: Extent
    token: str
    texts: Sequence[str]
    bodies: Path
    process_body: Path
    peer_port: int
    templates: int
    _next_number: int = 100_000

    @cached_property
    def sessions(self) -> sessionmaker[Session]:
        """Connections to the service's database."""
        return sessions(self.stack.settings)

    @cached_property
    def celery(self) -> MigrationCelery:
        """Sends messages to the service's workers."""
        return create_celery(self.stack.settings)

    @property
    def url(self) -> str:
        """The service's address."""
        return f"http://127.0.0.1:{self.stack.web_port}"

    def take_numbers(self, count: int) -> int:
        """Return the first of `count` external account numbers that were not used before."""
        first = self._next_number
        self._next_number += count
        return first

    def stage(self, url: str, *, seconds: float, clients: int) -> Load:
        """Stage new accounts at this endpoint."""
        first = self.take_numbers(200_000)
        return run_wrk(
            url,
            mode="stage",
            seconds=seconds,
            clients=clients,
            token=self.token,
            bodies=self.bodies,
            first=first,
            count=200_000,
        )

    def process(self, *, seconds: float, clients: int, expected_rate: float) -> Load:
        """Create accounts that were staged before, enough for this time."""
        count = int(seconds * expected_rate * 1.5) + 4 * clients
        first = self.take_numbers(count)
        stage_copies(self.stack.settings, first, count, self.templates)
        return run_wrk(
            self.url + PROCESS,
            mode="process",
            seconds=seconds,
            clients=clients,
            token=self.token,
            bodies=self.process_body,
            first=first,
            count=count,
        )

    def peer(self, *arguments: str) -> dict[str, Any]:
        """Return the JSON that a script of the peers prints."""
        environment = peer_environment() | {
            "REDIS_URL": self.stack.settings.redis_url,
            "NORMALIZE__WORKERS": str(PROCESSES),
            "RUNTIME__DLTHUB_TELEMETRY": "false",
        }
        script, *rest = arguments
        path = Path(__file__).parent / "peers" / script
        done = subprocess.run(
            [peers_python(), str(path), *rest],
            env=environment | {"LC_ALL": os.environ.get("LC_ALL", "C.UTF-8")},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(f"{script} failed:\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}")
        result: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
        return result


def alternate(rounds: int, *measures: Callable[[], float]) -> list[list[float]]:
    """Return the values of each measure.

    They are taken in turn, so that a busy machine affects all of them.
    """
    values: list[list[float]] = [[] for _ in measures]
    for _ in range(rounds):
        for place, measure in enumerate(measures):
            values[place].append(measure())
    return values


def median_ratio(ours: Sequence[float], peers: Sequence[float]) -> float:
    """Return the median of the ratios of our value and the peer's of the same round."""
    return statistics.median(one / other for one, other in zip(ours, peers, strict=True))
