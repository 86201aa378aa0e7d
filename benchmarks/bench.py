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

from benchmarks.costs import metered
from benchmarks.seed import sessions
from benchmarks.stack import PROCESSES, Stack, peer_environment, peers_python
from benchmarks.wrk import run_wrk
from migration_service.celery_app import create_celery
from migration_service.tasks.app import MigrationCelery


@dataclass(frozen=True, slots=True)
class Extent:
    """How much is measured. `quick` takes less time and is less precise."""

    rounds: int
    seconds: float
    #: Accounts of a batch, and accounts that already exist in the large case.
    batch: int
    filled: int
    #: Seconds for which the xmin horizon is pinned.
    pinned: float


FULL = Extent(rounds=5, seconds=6, batch=5_000, filled=1_000_000, pinned=600)
QUICK = Extent(rounds=2, seconds=2, batch=1_000, filled=100_000, pinned=60)


@dataclass(frozen=True, slots=True)
class Reading:
    """The result of one round of one measure."""

    #: Requests, accounts or tasks, and their rate per second.
    count: int
    rate: float
    #: Latencies as measured by the client, or None if all have one answer.
    p50_ms: float | None = None
    p95_ms: float | None = None
    #: Milliseconds of processor time for one of them, by program.
    costs: dict[str, float] = field(default_factory=dict)

    @property
    def cost(self) -> float:
        """Return the milliseconds of processor time for one of them, for all programs together."""
        return sum(self.costs.values())


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table: a goal and its measurement."""

    what: str
    ours: float
    unit: str
    goal: str
    #: The goal, or None if the row is for information.
    reached: bool | None
    #: What it is compared with, in the same unit, or None if the goal is a plain number.
    peer: float | None = None
    peer_name: str = ""
    #: Every round, ours and the peer's.
    readings: Sequence[Reading] = ()
    peer_readings: Sequence[Reading] = ()
    #: Further values, for the JSON file.
    more: dict[str, Any] = field(default_factory=dict)


@dataclass
class Bench:
    """A run of the benchmarks."""

    stack: Stack
    extent: Extent
    api_key: str
    token: str
    texts: Sequence[str]
    #: The folder of the files that the load generator reads.
    folder: Path
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

    @property
    def peer_url(self) -> str:
        """The address of the web peer."""
        return f"http://127.0.0.1:{self.peer_port}"

    def take_numbers(self, count: int) -> int:
        """Return the first of `count` external account numbers that were not used before."""
        first = self._next_number
        self._next_number += count
        return first

    def load(self, url: str, **options: Any) -> Reading:
        """Put load on `url` with the options of `run_wrk`."""
        with metered(self.stack) as meter:
            load = run_wrk(url, token=self.token, **options)
        return Reading(load.requests, load.rate, load.p50_ms, load.p95_ms, meter.of_one(load.requests))

    def peer_reading(self, *arguments: str) -> Reading:
        """Run a script of the peers that prints the latencies of its requests."""
        with metered(self.stack) as meter:
            result = self.peer(*arguments)
        count, seconds = result["requests"], result["seconds"]
        costs = meter.of_one(count) | result.get("costs", {})
        return Reading(count, count / seconds, result["p50_ms"], result["p95_ms"], costs)

    def peer(self, *arguments: str) -> dict[str, Any]:
        """Return what a script of the peers printed (JSON)."""
        environment = peer_environment() | {
            "REDIS_URL": self.stack.settings.redis_url,
            "DATABASE_URL": self.stack.settings.owner_database_url,
            "SERVICE_URL": self.url,
            "API_KEY": self.api_key,
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


def alternate(rounds: int, *measures: Callable[[], Reading]) -> list[list[Reading]]:
    """Return the readings of each measure. They are taken in turn, so that a busy machine affects all."""
    readings: list[list[Reading]] = [[] for _ in measures]
    for number in range(rounds):
        places = range(len(measures))
        for place in places if number % 2 == 0 else reversed(places):
            readings[place].append(measures[place]())
    return readings


def compared_rates(
    what: str,
    unit: str,
    readings: Sequence[Sequence[Reading]],
    *,
    peer_name: str,
    goal: str,
    needed: float | None,
) -> Row:
    """Return the row of a rate and that of a peer. `readings` has both from the same rounds.

    The ratio is the median over the rounds. `needed` is the goal's, or None if there is none.
    """
    mine, peers = readings
    ratio = statistics.median(one.rate / other.rate for one, other in zip(mine, peers, strict=True))
    return Row(
        what,
        statistics.median(each.rate for each in mine),
        unit,
        goal,
        None if needed is None else ratio >= needed,
        statistics.median(each.rate for each in peers),
        peer_name,
        mine,
        peers,
        {"ratio": ratio},
    )
