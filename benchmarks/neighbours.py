"""A quiet organisation beside a hostile one, which orders everything that the description has.

    make bench ARGS="neighbours --seconds 20 --connections 10"      a shorter run

The service is started as `make run` starts it. The quiet organisation stages and creates accounts, and then
sends batches of 200 lines: alone, and beside the hostile one (`benchmarks.hostile`), for each number of
connections, also while that gives every request up, or reads nothing of what it asks for. Then two quiet
organisations do the same at once. The exit status is 1 if a bound is missed.

Attackers have machines of their own. Here they are a session of their own with the lowest priority, so that
they use what the service and its quiet client leave of the processors. `--attackers-niceness 0` lets them
compete for all of it.
"""

import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import click

from benchmarks.hostile import GIVES_UP, ORDERS, READS_NOTHING
from benchmarks.report import describe_machine
from migration_service.config import load_saved_settings
from migration_service.services.access.api_keys import find_prefix, issue_api_key
from migration_service.services.setup.organisations import create_organisation
from migration_service.services.setup.suppliers import create_import_supplier
from migration_service.services.setup.teams import create_operations_team
from migration_service_client import Client
from migration_service_client.conversations import Answer, NoAnswer, Send
from migration_service_local.demo.first_operator import open_session
from migration_service_local.samples import generate_accounts
from support.servers import RunningService

#: How many times as slow as alone the quiet organisation may be: the median of its accounts, their 95th
#: percentile, and its batch.
MEDIAN, P95, BATCH = 3.0, 4.0, 3.0
#: How many times as slow as the other one a quiet organisation may be.
EQUAL = 1.3
_TEAM = "Neighbours"
_CLIENTS, _LINES = 4, 200
_WARM_UP_SECONDS, _REST_SECONDS = 5.0, 10.0


@dataclass
class Times:
    """Seconds of each account, from staging to the created account, and of each batch; what was refused."""

    accounts: list[float] = field(default_factory=list)
    batches: list[float] = field(default_factory=list)
    refused: Counter[int] = field(default_factory=Counter)

    def summary(self) -> tuple[float, float, float]:
        """The median and the 95th percentile of the accounts, and the median of the batches."""
        return (
            statistics.median(self.accounts),
            statistics.quantiles(self.accounts, n=20)[-1],
            statistics.median(self.batches),
        )


class Quiet(Client):
    """An organisation that migrates its accounts with the suppliers' client."""

    def __init__(self, url: str, name: str, key: str) -> None:
        super().__init__(url, key, patience=60, proxy="")
        self._name = name
        self._book = generate_accounts(1_000_000, supplier=name, seed=3)
        self._taking = threading.Lock()
        self._refused: Counter[int] = Counter()

    def measure(self, seconds: float, batches: int = 9) -> Times:
        """Migrate accounts one by one for so long, with several clients, and then with so many batches."""
        times, until = Times(), time.monotonic() + seconds
        self._refused = times.refused
        with ThreadPoolExecutor(_CLIENTS) as pool:
            list(pool.map(lambda _: self._migrate(until, times), range(_CLIENTS)))
        for _ in range(batches):
            self._send_batch(times)
        return times

    def _accounts(self, count: int) -> list[dict[str, Any]]:
        with self._taking:
            return [*islice(self._book, count)]

    def _migrate(self, until: float, times: Times) -> None:
        while time.monotonic() < until:
            (account,) = self._accounts(1)
            began = time.monotonic()
            self.create_account(account, operations_team_name=_TEAM)
            times.accounts.append(time.monotonic() - began)

    def _send_batch(self, times: Times) -> None:
        lines = self._accounts(_LINES)
        began = time.monotonic()
        batch = self.start_batch(lines, import_supplier=self._name, mode="import", operations_team_name=_TEAM)
        self.wait_for_batch(batch.batch_id, seconds=0.1)
        times.batches.append(time.monotonic() - began)

    def _send(self, step: Send) -> Answer | NoAnswer:
        answer = super()._send(step)
        if not (isinstance(answer, Answer) and answer.is_ok):
            self._refused[answer.status if isinstance(answer, Answer) else 0] += 1
        return answer


def _set_up(database_url: str) -> dict[str, list[str]]:
    """Three organisations, each with a supplier of its name, and their keys."""
    keys: dict[str, list[str]] = {}
    with open_session(database_url) as session:
        create_operations_team(session, _TEAM)
        for name in ("QUIET", "OTHER", "HOSTILE"):
            create_organisation(session, name)
            create_import_supplier(session, code=name, organisation_name=name)
            keys[name] = [issue_api_key(session, organisation_name=name) for _ in range(3)]
    return keys


@contextmanager
def _attack(*whom: object, niceness: int, connections: int, manner: str = ORDERS) -> Iterator[None]:
    """Attack until the end of the block."""
    order = (niceness, connections, manner, *whom)
    command = [sys.executable, "-m", "benchmarks.hostile", *map(str, order)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as process:
        assert process.stdout is not None
        process.stdout.readline()  # that it has begun
        time.sleep(_WARM_UP_SECONDS)
        try:
            yield
            if process.poll() is not None:
                raise click.ClickException("The attack has ended before the accounts had arrived.")
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(120)
    time.sleep(_REST_SECONDS)


def _compare(what: str, times: Times, alone: Times, bounds: Sequence[float]) -> bool:
    """Show how many times as slow `times` are, and return whether they are within the bounds."""
    ratios = [one / other for one, other in zip(times.summary(), alone.summary(), strict=True)]
    is_kept = all(ratio <= bound for ratio, bound in zip(ratios, bounds, strict=True)) and not times.refused
    shown = "   ".join(
        f"{name} {seconds * 1000:5.0f} ms {ratio:5.2f}"
        for name, seconds, ratio in zip(("median", "95 %", "batch"), times.summary(), ratios, strict=True)
    )
    click.echo(f"{what:32} {shown}   refused {dict(times.refused) or 0}{'' if is_kept else '   MISSED'}")
    return is_kept


def _measure_two(pair: Sequence[Quiet], seconds: float) -> list[Times]:
    """Measure two organisations at the same time."""
    with ThreadPoolExecutor(len(pair)) as pool:
        return list(pool.map(lambda one: one.measure(seconds), pair))


@click.command("neighbours")
@click.option(
    "--seconds", type=click.FloatRange(min=5), default=60.0, show_default=True, help="Of each part."
)
@click.option(
    "--connections", type=click.IntRange(1, 60), multiple=True, default=(2, 10, 30), show_default=True
)
@click.option("--attackers-niceness", type=click.IntRange(0, 19), default=19, show_default=True)
def main(*, seconds: float, connections: tuple[int, ...], attackers_niceness: int) -> None:
    """Measure what a hostile organisation costs a quiet one."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # and so stop what was started
    click.echo(describe_machine())
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        home = Path(folder) / "home"
        with RunningService(home, "--sample", "0") as service:
            service.wait_until_serving()
            settings = load_saved_settings(home)
            url = settings["MIGRATION_SERVICE_WEB_URL"]
            keys = _set_up(settings["DATABASE_URL"])
            whom = [url, "HOSTILE", _TEAM, ",".join(keys["HOSTILE"]), find_prefix(keys["QUIET"][0])]
            quiet, other = (Quiet(url, name, keys[name][0]) for name in ("QUIET", "OTHER"))
            quiet.measure(_WARM_UP_SECONDS)
            kept = []
            attacks = [("a hostile one", ORDERS, number) for number in connections]
            attacks += [("requests given up", GIVES_UP, max(connections))]
            attacks += [("events that nobody reads", READS_NOTHING, max(connections))]
            for what, manner, number in attacks:
                alone = quiet.measure(seconds / 2)
                with _attack(*whom, niceness=attackers_niceness, connections=number, manner=manner):
                    beside = quiet.measure(seconds)
                kept.append(_compare(f"{what}, {number}", beside, alone, (MEDIAN, P95, BATCH)))
            one, two = _measure_two([quiet, other], seconds)
            kept.append(_compare("one quiet beside another", one, two, [EQUAL] * 3))
            kept.append(_compare("the other beside the one", two, one, [EQUAL] * 3))
    sys.exit(not all(kept))
