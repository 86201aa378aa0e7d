"""What the death of a cell costs the others: three cells behind HAProxy, on one machine.

    make cells ARGS="--seconds 30 --rounds 1"      a shorter run
    make cells ARGS="--fault frozen"               the third cell hangs instead

Each cell is a `migration-service up` of its own. The clients of each stage and create accounts at a constant
rate, and wait for no answer before they send the next request: a time counts from when a request was due. In
each round the first two cells are measured while all are alive, and while the third one is dead and its
clients go on. The exit status is 1 if the 99th percentile is more than 1.2 times as long beside a dead cell,
or if the first two refuse anything.
"""

import json
import signal
import statistics
import sys
import tempfile
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click
import psutil
import requests

from benchmarks.report import describe_machine
from migration_service.db.engine import make_engine, make_sessionmaker
from migration_service_local.samples import generate_accounts
from migration_service_local.servers.ports import LOOPBACK
from support.cell_balancer import NAMES, cell_balancer
from support.factories import OBTAIN, make_customer
from support.servers import RunningService, processes_in
from support.web_servers import is_answered

#: How many times as long as beside living cells the 99th percentile may be.
BOUND = 1.2
_API = "/v1/data-import"
_SMALL = ("--sample", "0", "--web-workers", "1", "--interactive-workers", "1", "--batch-workers", "1")
_WARM_UP_SECONDS, _REST_SECONDS = 10.0, 5.0
_THREADS = 16


@dataclass
class Times:
    """Seconds from when an account was due to when it was created, and the statuses of refused requests."""

    seconds: list[float] = field(default_factory=list)
    refused: Counter[str] = field(default_factory=Counter)


class Cell:
    """A cell, with one organisation in it whose clients go through the balancer."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self.service = RunningService(home, *_SMALL)
        self.service.wait_until_serving()
        saved = json.loads((home / "settings.json").read_text())
        self.port = int(saved["MIGRATION_SERVICE_WEB_URL"].rpartition(":")[2])
        engine = make_engine(saved["DATABASE_URL"], pool_size=1, max_overflow=0, application_name="cells")
        self.customer = make_customer(make_sessionmaker(engine))
        engine.dispose()
        self._book = generate_accounts(1_000_000, supplier=self.customer.import_supplier, seed=3)
        self._taking = threading.Lock()
        self._token = ""

    def log_in(self, url: str) -> None:
        body = {"query": OBTAIN, "variables": {"input": {"APIKey": self.customer.api_key}}}
        answer = requests.post(f"{url}/v1/graphql/", json=body, timeout=60)
        self._token = answer.json()["data"]["obtainServiceToken"]["token"]

    def send(self, url: str, rate: float, seconds: float) -> Times:
        """Stage and create accounts at this rate, and return how long each took."""
        times, began = Times(), time.monotonic() + 0.1
        with ThreadPoolExecutor(_THREADS) as pool:
            due = (began + index / rate for index in range(int(rate * seconds)))
            list(pool.map(lambda moment: self._migrate(url, moment, times), due))
        return times

    def signal_all(self, number: signal.Signals) -> None:
        """Send a signal to every process of the cell."""
        for process in [*processes_in(self._home), psutil.Process(self.service.process.pid)]:
            process.send_signal(number)

    def stop(self) -> None:
        self.service.stop_at_once()

    def restart(self, fault: str) -> None:
        """Let a frozen cell continue, or start a dead one again on the same port."""
        if fault == "frozen":
            self.signal_all(signal.SIGCONT)
            return
        self.service.process.wait()
        self.service = RunningService(self._home, *_SMALL, "--port", str(self.port))
        self.service.wait_until_serving()

    def _migrate(self, url: str, moment: float, times: Times) -> None:
        with self._taking:
            account = next(self._book)
        order = {
            "external_account_number": account["external_account_number"],
            "import_supplier_code": self.customer.import_supplier,
            "operations_team_name": self.customer.operations_team,
        }
        time.sleep(max(0.0, moment - time.monotonic()))
        path = f"{url}{_API}/account-import-process"
        if self._post(f"{path}/create-or-update/", account, times) and self._post(
            f"{path}/process/", order, times
        ):
            times.seconds.append(time.monotonic() - moment)

    def _post(self, url: str, body: Any, times: Times) -> bool:
        try:
            answer = requests.post(
                url, json=body, headers={"Authorization": f"Token {self._token}"}, timeout=60
            )
        except requests.RequestException as error:
            times.refused[type(error).__name__] += 1
            return False
        if not answer.ok:
            times.refused[str(answer.status_code)] += 1
        return answer.ok


def measure(cells: list[Cell], url: str, rate: float, seconds: float) -> list[Times]:
    """Let the clients of all cells send at once, and return what those of each have seen."""
    with ThreadPoolExecutor(len(cells)) as pool:
        return list(pool.map(lambda cell: cell.send(url, rate, seconds), cells))


def _p99(found: list[Times]) -> float:
    return statistics.quantiles([it for times in found for it in times.seconds], n=100)[-1]


def _show(what: str, found: list[Times]) -> None:
    living = found[:2]
    middle = statistics.median([it for times in living for it in times.seconds])
    refused = [dict(times.refused) or 0 for times in found]
    click.echo(
        f"{what:22} median {middle * 1000:5.1f} ms   99 % {_p99(living) * 1000:6.1f} ms   refused {refused}"
    )


@click.command()
@click.option("--seconds", type=click.FloatRange(min=5, max=600), default=60.0, show_default=True)
@click.option("--rounds", type=click.IntRange(1, 20), default=3, show_default=True)
@click.option(
    "--rate", type=click.FloatRange(1, 100), default=8.0, show_default=True, help="Accounts a second."
)
@click.option("--fault", type=click.Choice(["dead", "frozen"]), default="dead", show_default=True)
def main(*, seconds: float, rounds: int, rate: float, fault: str) -> None:
    """Measure what the death of one of three cells costs the others."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # and so stop what was started
    click.echo(describe_machine())
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        Path(folder).chmod(0o755)
        cells = []
        for name in NAMES:
            (Path(folder) / name).mkdir(mode=0o755)
            cells.append(Cell(Path(folder) / name / "home"))
            stack.callback(cells[-1].stop)
        balancer = stack.enter_context(cell_balancer(Path(folder), [it.port for it in cells]))
        prefixes = zip(cells, NAMES, strict=True)
        balancer.route("".join(f"{cell.customer.prefix} {name}\n" for cell, name in prefixes))
        url = f"http://{LOOPBACK}:{balancer.port}"
        for cell in cells:
            cell.log_in(url)
        measure(cells, url, rate, _WARM_UP_SECONDS)
        ratios, refused = [], 0
        for _ in range(rounds):
            alive = measure(cells, url, rate, seconds)
            _show("all alive", alive)
            cells[2].signal_all(signal.SIGSTOP if fault == "frozen" else signal.SIGKILL)
            beside = measure(cells, url, rate, seconds)
            _show(f"beside a {fault} one", beside)
            cells[2].restart(fault)
            while not is_answered(cells[2].port):
                time.sleep(0.2)
            time.sleep(_REST_SECONDS)
            ratios.append(_p99(beside[:2]) / _p99(alive[:2]))
            refused += sum(times.refused.total() for times in (*alive[:2], *beside[:2]))
    ratio = statistics.median(ratios)
    click.echo(f"99th percentile beside a {fault} cell: {ratio:.2f} times, refused {refused}")
    sys.exit(ratio > BOUND or refused > 0)


if __name__ == "__main__":
    main()
