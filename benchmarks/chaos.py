"""The public chaos of queues, on batches of staged accounts: `python -m benchmarks chaos`.

These are the five chaos and the four pressure scenarios, with their phases, rates and faults, of
https://github.com/hardbyte/postgresql-job-queue-benchmarking (commit 93677cab, `scripts/run_full_sweep.sh`).
A job is a staged account that becomes an account. A producer stages accounts at a fixed rate and orders a
batch of them every second; workers create them. Those rates are of four processors; fewer get their part of
them, because what has no processor time to spare cannot catch up. All nine take an hour, and 25 GB of disk
while they run.

    python -m benchmarks chaos --only crash_recovery         one of them
    python -m benchmarks chaos --part 10 --only idle_in_tx   phases of a tenth of their time

It prints our rows of docs/contributors/reliability.md. The exit status is 1 if an account is lost or created
twice, or if a scenario recovers less than 98 % of its rate.
"""

import os
import shutil
import statistics
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import click
import psycopg
from redis import RedisError
from sqlalchemy.exc import OperationalError

from benchmarks.payloads import make_payloads
from benchmarks.prepare import say
from benchmarks.report import describe_machine
from benchmarks.seed import STAGE_COPIES, sessions, set_up_caller, stage_templates, start_staged
from benchmarks.stack import Stack
from migration_service.celery_app import create_celery
from migration_service.states import LineStatus
from migration_service.tasks.batches import feed_batches
from migration_service_local.servers.postgres import DATABASE
from migration_service_local.servers.process import Child, Program

#: The part of the rate that has to come back.
NEEDED = 0.98
#: Bytes that the largest scenario writes at most.
_ROOM = 25e9
#: The part of the rates that this machine gets.
_PART_OF_RATES = min(1.0, (os.cpu_count() or 1) / 4)
#: Seconds of one sample, as there. A phase's rate is the median of its samples.
_SAMPLE = 5
#: Seconds after the last phase in which what is left has to be done.
_DRAIN_SECONDS = 180
#: Accounts whose copies are staged.
_TEMPLATES = 500
_FIRST_NUMBER = 100_000
#: What differs in the PostgreSQL there.
_POSTGRES = ("-c", "max_connections=400", "-c", "shared_buffers=256MB", "-c", "work_mem=8MB")
_IDLE_CONNECTIONS, _READERS, _KILLS_A_SECOND, _KILL_EVERY, _HIGH_LOAD = 300, 4, 2, 20, 1.5


class Replicas(Stack):
    """The servers, beat, and one or two workers, each of which could be on a host of its own."""

    def start_service(self, replicas: int = 1) -> None:
        """Start beat and the workers."""
        self.write_settings()
        self._start(self._programs.beat())
        for number in range(replicas):
            self.start_worker(number)

    def start_worker(self, number: int) -> None:
        """Start a worker of all queues."""
        queues = "interactive,batch,vendors,maintenance"
        self._start(self._programs.worker(f"replica-{number}", queues, concurrency=2))

    def _spawn(self, program: Program) -> Child:
        if program.name == "postgres":
            program = replace(program, arguments=[*program.arguments, *_POSTGRES])
        return super()._spawn(program)


class Producer:
    """Stages accounts and orders batches of them. What it cannot store is not made up for."""

    def __init__(self, stack: Replicas, rate: float) -> None:
        self.rate = rate
        self.refused = 0
        self._number = _FIRST_NUMBER
        self._sessions, self._celery = sessions(stack.settings), create_celery(stack.settings)
        self._over = threading.Event()

    @contextmanager
    def producing(self) -> Iterator[None]:
        """Produce once a second until the end of the block."""
        with ThreadPoolExecutor(1) as pool:
            done = pool.submit(self._produce_on)
            try:
                yield
            finally:
                self._over.set()
            done.result()

    def _produce_on(self) -> None:
        before = time.monotonic()
        while not self._over.wait(max(0.0, before + 1 - time.monotonic())):
            now = time.monotonic()
            self.produce(round(self.rate * (now - before)))
            before = now

    def produce(self, count: int) -> None:
        """Stage so many accounts, and order a batch of them."""
        values = {"first": self._number, "last": self._number + count - 1, "templates": _TEMPLATES}
        self._number += count
        try:
            with self._sessions.begin() as session:
                staged = session.connection().exec_driver_sql(STAGE_COPIES, values).scalars().all()
                start_staged(session, staged)
            feed_batches(self._celery, self._sessions)
        except (OperationalError, RedisError):
            self.refused += count


@dataclass
class Scene:
    """What a phase acts on."""

    stack: Replicas
    producer: Producer


@contextmanager
def lasting(seconds: float) -> Iterator[float]:
    """Yield when the time will be up, and wait for that at the end of the block."""
    until = time.monotonic() + seconds
    yield until
    time.sleep(max(0.0, until - time.monotonic()))


def clean(_scene: Scene, seconds: float) -> None:
    """Let it work."""
    time.sleep(seconds)


def restart_postgres(scene: Scene, seconds: float) -> None:
    """Take PostgreSQL away for half of the time."""
    scene.stack.stop("postgres")
    time.sleep(seconds / 2)
    with lasting(seconds / 2):
        scene.stack.start("postgres")


def kill_backends(scene: Scene, seconds: float) -> None:
    """Twice a second, end every connection that is in a transaction."""
    with scene.stack.connect() as connection, lasting(seconds) as until:
        while time.monotonic() < until:
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s "
                "AND pid <> pg_backend_pid() AND state IN ('active', 'idle in transaction')",
                [DATABASE],
            )
            time.sleep(1 / _KILLS_A_SECOND)


def exhaust_connections(scene: Scene, seconds: float) -> None:
    """Hold 300 idle connections."""
    with ExitStack() as held:
        for _ in range(_IDLE_CONNECTIONS):
            held.enter_context(psycopg.connect(scene.stack.settings.database_url, autocommit=True))
        time.sleep(seconds)


def kill_worker(scene: Scene, seconds: float) -> None:
    """Kill one of two workers."""
    scene.stack.kill("replica-0")
    time.sleep(seconds)


def start_worker(scene: Scene, seconds: float) -> None:
    """Start it again."""
    scene.stack.start_worker(0)
    time.sleep(seconds)


def kill_worker_repeatedly(scene: Scene, seconds: float) -> None:
    """Every twenty seconds, kill one of two workers, and start it a second later."""
    with lasting(seconds) as until:
        while time.monotonic() + _KILL_EVERY < until:
            time.sleep(_KILL_EVERY)
            kill_worker(scene, 1)
            start_worker(scene, 0)


def stay_in_transaction(scene: Scene, seconds: float) -> None:
    """Hold one transaction with a transaction id, so that no dead row can be removed."""
    with scene.stack.connect() as connection, connection.transaction():
        connection.execute("SELECT txid_current()")
        time.sleep(seconds)


def produce_more(scene: Scene, seconds: float) -> None:
    """Produce half as much again."""
    scene.producer.rate *= _HIGH_LOAD
    time.sleep(seconds)
    scene.producer.rate /= _HIGH_LOAD


def read_the_queue(scene: Scene, seconds: float) -> None:
    """Count the queue's rows ten times a second on four connections, each with one snapshot."""

    def read(_reader: int) -> None:
        until = time.monotonic() + seconds
        with scene.stack.connect() as connection, connection.transaction():
            connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            while time.monotonic() < until:
                connection.execute("SELECT count(*) FROM batch_chunk").fetchall()
                time.sleep(0.1)

    with ThreadPoolExecutor(_READERS) as pool:
        list(pool.map(read, range(_READERS)))


Act = Callable[[Scene, float], None]


@dataclass(frozen=True, slots=True)
class Scenario:
    """Phases: a warm-up, a clean one, those with the fault, and a clean one."""

    #: Accounts a second on four processors.
    rate: float
    #: What happens after the clean phase, and for how many seconds.
    acts: Sequence[tuple[Act, float]]
    recovery: float
    replicas: int = 1
    is_pressure: bool = False

    @property
    def phases(self) -> Sequence[tuple[Act, float]]:
        """All phases with their seconds."""
        return [(clean, 30), (clean, 60), *self.acts, (clean, self.recovery)]


SCENARIOS = {
    "postgres_restart": Scenario(600, [(restart_postgres, 60)], 60),
    "pg_backend_kill": Scenario(600, [(kill_backends, 60)], 60),
    "pool_exhaustion": Scenario(600, [(exhaust_connections, 60)], 60),
    "crash_recovery": Scenario(600, [(kill_worker, 60), (start_worker, 60)], 60, replicas=2),
    "repeated_kills": Scenario(600, [(kill_worker_repeatedly, 120)], 60, replicas=2),
    "idle_in_tx": Scenario(800, [(stay_in_transaction, 240)], 180, is_pressure=True),
    "sustained_high_load": Scenario(800, [(produce_more, 240)], 120, is_pressure=True),
    "active_readers": Scenario(800, [(read_the_queue, 240)], 120, is_pressure=True),
    "event_burst": Scenario(1200, [(produce_more, 300)], 240, is_pressure=True),
}


@dataclass(frozen=True, slots=True)
class Result:
    """What became of a scenario. Rates are accounts a second."""

    before: float
    during: float
    after: float
    #: Accounts of stored batches, those of them that were created, and rows of accounts.
    ordered: int
    created: int
    accounts: int
    #: Accounts that the producer could not store.
    refused: int
    #: Seconds from the end of the last phase until everything that was ordered was created.
    drained: float

    @property
    def has_recovered(self) -> bool:
        """Whether nothing is lost or created twice, and the rate is back."""
        return self.created == self.ordered == self.accounts and self.after >= NEEDED * self.before > 0

    def part(self, rate: float) -> str:
        """Return a rate as a part of that before the fault."""
        return f"{rate / self.before:.0%}" if self.before else "—"

    def __str__(self) -> str:
        return (
            f"{self.before:.0f} accounts/s before, {self.during:.0f} during, {self.after:.0f} after "
            f"({self.part(self.after)}); {self.ordered} ordered, {self.created} created, "
            f"{self.accounts} accounts, {self.refused} not stored; over {self.drained:.0f} s after the end"
        )


def run(scenario: Scenario, part: float) -> Result:
    """Run a scenario on servers of its own, with phases divided by `part`."""
    with Replicas() as stack:
        set_up_caller(stack.settings)
        stage_templates(stack.settings, make_payloads(_TEMPLATES))
        stack.start_service(scenario.replicas)
        scene = Scene(stack, Producer(stack, scenario.rate * _PART_OF_RATES))
        scene.producer.produce(_TEMPLATES)
        _wait_until_done(scene)  # the workers have started
        began = [time.time()]
        with scene.producer.producing():
            for act, seconds in scenario.phases:
                act(scene, seconds / part)
                began.append(time.time())
        drained = _wait_until_done(scene) - began[-1]
        return _read_result(scene, began, drained)


def _wait_until_done(scene: Scene) -> float:
    deadline = time.monotonic() + _DRAIN_SECONDS
    with scene.stack.connect() as connection:
        while time.monotonic() < deadline:
            if not connection.execute("SELECT FROM batch WHERE finished_at IS NULL LIMIT 1").fetchall():
                break
            time.sleep(0.5)
    return time.time()


def _read_result(scene: Scene, began: Sequence[float], drained: float) -> Result:
    with scene.stack.connect() as connection:
        done: list[tuple[float, int]] = connection.execute(
            "SELECT extract(epoch FROM finished_at)::float8, done FROM batch_chunk "
            "WHERE finished_at IS NOT NULL"
        ).fetchall()
        ordered, created = connection.execute(
            "SELECT count(*), count(*) FILTER (WHERE status = %s) FROM batch_line", [LineStatus.IMPORTED]
        ).fetchone() or (0, 0)
        (accounts,) = connection.execute("SELECT count(*) FROM account").fetchone() or (0,)
    before, during, after = (
        _median_rate(done, *span)
        for span in ((began[1], began[2]), (began[2], began[-2]), (began[-2], began[-1]))
    )
    return Result(before, during, after, ordered, created, accounts, scene.producer.refused, drained)


def _median_rate(done: Sequence[tuple[float, int]], begin: float, end: float) -> float:
    """Return the median of the samples that lie within this time, as accounts a second."""
    samples = [0] * max(1, int((end - begin) / _SAMPLE))
    for moment, count in done:
        place = int((moment - begin) // _SAMPLE)
        if 0 <= place < len(samples):
            samples[place] += count
    return statistics.median(samples) / _SAMPLE


def describe(results: dict[str, Result], part: float, *, is_pressure: bool) -> str:
    """Return our row of one of the two tables: the rate afterwards, under pressure after that during it."""
    cells = ["**this service**" if part == 1 else f"**this service**, phases / {part:g}"]
    for name, scenario in SCENARIOS.items():
        if scenario.is_pressure == is_pressure:
            it = results.get(name)
            rates = () if it is None else (it.during, it.after) if is_pressure else (it.after,)
            cells.append(", ".join(map(it.part, rates)) if it else "")
    return f"| {' | '.join(cells)} |"


@click.command("chaos")
@click.option("--only", multiple=True, type=click.Choice(list(SCENARIOS)), help="Run only this scenario.")
@click.option(
    "--part", default=1.0, type=click.FloatRange(1, 12), help="Divide the time of all phases by this."
)
def main(only: tuple[str, ...], part: float) -> None:
    """Run the scenarios one after the other, each on servers of its own."""
    if shutil.disk_usage(Path.cwd()).free < _ROOM:
        raise click.UsageError(f"The scenarios need {_ROOM / 1e9:.0f} GB of disk.")
    results = {}
    for name, scenario in SCENARIOS.items():
        if not only or name in only:
            say(f"{name}: {sum(seconds for _, seconds in scenario.phases) / part:.0f} s ...")
            results[name] = run(scenario, part)
            say(f"{name}: {results[name]}")
    rows = [describe(results, part, is_pressure=is_pressure) for is_pressure in (False, True)]
    sys.stdout.write("\n".join((describe_machine(), *rows, "")))
    if not all(result.has_recovered for result in results.values()):
        sys.exit(1)
