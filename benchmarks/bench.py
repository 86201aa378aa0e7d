"""What every measure needs: the running stack, the prepared requests, and the time to measure."""

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from operator import sub, truediv
from pathlib import Path
from statistics import median
from typing import Any, Literal

from sqlalchemy.orm import Session, sessionmaker

from benchmarks.costs import Meter, metered
from benchmarks.seed import sessions
from benchmarks.stack import PEER_ENVIRONMENT, PEERS_PYTHON, PROCESSES, Stack
from migration_service.celery_app import create_celery
from migration_service.tasks.app import MigrationCelery

_HERE = Path(__file__).parent


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
    def interface(self) -> str:
        """What the addresses of the interface begin with."""
        return f"{self.url}/v1/data-import"

    @property
    def peer_url(self) -> str:
        """The address of the web peer."""
        return f"http://127.0.0.1:{self.peer_port}"

    def take_numbers(self, count: int) -> int:
        """Return the first of `count` external account numbers that were not used before."""
        first = self._next_number
        self._next_number += count
        return first

    def load(
        self,
        url: str,
        mode: str,
        seconds: float,
        clients: int,
        *,
        bodies: Path = Path("/dev/null"),
        first: int = 0,
        count: int = 1_000_000_000,
    ) -> Reading:
        """Let wrk send requests to `url` for `seconds` from `clients` clients. load.lua has the modes.

        `count` external account numbers are used, from `first` on. Exit if an answer is not 2xx.
        """
        threads = min(2, clients)
        command = [
            *("wrk", "--threads", str(threads), "--connections", str(clients), "--timeout", "60s"),
            *("--duration", f"{max(1, round(seconds))}s", "--script", str(_HERE / "load.lua"), url),
            *("--", mode, str(bodies), self.token, str(first), str(count // threads)),
        ]
        with metered(self.stack) as meter:
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        _, _, result = done.stdout.partition("RESULT ")
        if done.returncode or not result:
            sys.exit(f"wrk failed on {url}:\n{done.stdout}\n{done.stderr}")
        load = json.loads(result)
        if load["refused"] or load["broken"]:
            sys.exit(f"Of {load['requests']}, {load['refused']} were refused, {load['broken']} broken: {url}")
        return _reading_of(load, meter)

    def peer_reading(self, *arguments: str) -> Reading:
        """Run a script of the peers that prints the latencies of its requests."""
        with metered(self.stack) as meter:
            result = self.peer(*arguments)
        return _reading_of(result, meter)

    def peer(self, script: str, *arguments: str) -> dict[str, Any]:
        """Return what a script of the peers printed (JSON)."""
        environment = PEER_ENVIRONMENT | {
            "REDIS_URL": self.stack.settings.redis_url,
            "DATABASE_URL": self.stack.settings.owner_database_url,
            "SERVICE_URL": self.url,
            "API_KEY": self.api_key,
            "NORMALIZE__WORKERS": str(PROCESSES),
            "RUNTIME__DLTHUB_TELEMETRY": "false",
        }
        command = [str(PEERS_PYTHON), str(_HERE / "peers" / script), *arguments]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"{script} failed:\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}")
        result: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
        return result


def _reading_of(result: dict[str, Any], meter: Meter) -> Reading:
    """Return the reading of requests that all have been answered."""
    count = result["requests"]
    costs = meter.of_one(count) | result.get("costs", {})
    return Reading(count, count / result["seconds"], result["p50_ms"], result["p95_ms"], costs)


def median_costs(readings: Sequence[Reading]) -> dict[str, float]:
    """Return the milliseconds of processor time of one request or account, by program."""
    programs = sorted({program for reading in readings for program in reading.costs})
    return {name: median(reading.costs.get(name, 0.0) for reading in readings) for name in programs}


def alternate(rounds: int, *measures: Callable[[], Reading]) -> list[list[Reading]]:
    """Return the readings of each measure. They are taken in turn, so that a busy machine affects all."""
    readings: list[list[Reading]] = [[] for _ in measures]
    for number in range(rounds):
        places = range(len(measures))
        for place in places if number % 2 == 0 else reversed(places):
            readings[place].append(measures[place]())
    return readings


def row_of_rates(what: str, unit: str, readings: Sequence[Reading], needed: float | None) -> Row:
    """Return the row of a rate that is compared with nothing. It is for information if nothing is needed."""
    rate = median(reading.rate for reading in readings)
    if needed is None:
        return Row(what, rate, unit, "for information", None, readings=readings)
    return Row(what, rate, unit, f"at least {needed:,}", rate >= needed, readings=readings)


def compared_rates(
    what: str,
    unit: str,
    readings: Sequence[Sequence[Reading]],
    *,
    peer_name: str,
    than: str,
    needed: float | None,
) -> Row:
    """Return the row of a rate and that of a peer. `readings` has both from the same rounds.

    The ratio is the median over the rounds. The goal is `needed` times `than`, or just `than`.
    """
    mine, peers = readings
    ratio = median(one.rate / other.rate for one, other in zip(mine, peers, strict=True))
    return Row(
        what,
        median(each.rate for each in mine),
        unit,
        than if needed is None else f"at least {needed} x {than}",
        None if needed is None else ratio >= needed,
        median(each.rate for each in peers),
        peer_name,
        mine,
        peers,
        {"ratio": ratio},
    )


def compared_times(
    what: str,
    readings: Sequence[Sequence[Reading]],
    *,
    peer_name: str,
    goal: str,
    relation: Literal["ratio", "difference"],
    most: float,
) -> Row:
    """Return the row of the median time of a request and that of a peer, whose relation is at most `most`."""
    mine, peers = readings
    ours, theirs = ([it.p50_ms or 0.0 for it in each] for each in readings)
    found = median(map(truediv if relation == "ratio" else sub, ours, theirs))
    more: dict[str, Any] = {relation: found}
    return Row(what, median(ours), "ms", goal, found <= most, median(theirs), peer_name, mine, peers, more)
