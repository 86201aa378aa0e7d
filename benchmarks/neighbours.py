"""Two organisations on one service: one uses every trick at once while the other migrates accounts.

    make neighbours ARGS="--accounts 500 --clients 4"

The service is started as `make run` starts it. The quiet organisation stages and creates accounts: first
alone, then under attack, then alone again. Attackers have machines of their own. Here they are a session of
their own with the lowest priority, so that they use what the service and its quiet client leave of the
processors. `--attackers-niceness 0` lets them compete for all of it. The results are in SECURITY.md. The exit
status is 1 if the median or the 95th percentile under attack is more than FACTOR times what it was alone, or
if an account did not arrive.
"""

import json
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, Self

import click
import psutil
import requests
from scratch_service import running_service

from benchmarks.hostile import TRICKS
from benchmarks.report import describe_machine
from migration_service.db.engine import make_engine, make_sessionmaker
from migration_service.services.access.api_keys import find_prefix, issue_api_key
from migration_service.services.setup.organisations import create_organisation
from migration_service.services.setup.suppliers import create_import_supplier
from migration_service.services.setup.teams import create_operations_team
from migration_service_local.samples import generate_accounts

#: How much slower the quiet organisation may become.
FACTOR = 3.0
_API = "/v1/data-import"
_TEAM = "Neighbours"
_WARM_UP_SECONDS = 5.0
#: Until what the attack has left, such as batches, is worked off.
_REST_SECONDS = 20.0
_LOG_IN = "mutation($key: String!) { obtainServiceToken(input: {APIKey: $key}) { token } }"


@dataclass
class Times:
    """Seconds of each account, from staging to the created account, and what was not a success."""

    seconds: list[float] = field(default_factory=list)
    stage: list[float] = field(default_factory=list)
    process: list[float] = field(default_factory=list)
    others: Counter[str] = field(default_factory=Counter)

    def median(self) -> float:
        """The middle of all accounts, in milliseconds."""
        return statistics.median(self.seconds) * 1000

    def p95(self) -> float:
        """What 95 of 100 accounts stay below, in milliseconds."""
        return _p95(self.seconds)


def _p95(seconds: Sequence[float]) -> float:
    return statistics.quantiles(seconds, n=20)[-1] * 1000


def _set_up(database_url: str, names: Sequence[str]) -> dict[str, str]:
    """An organisation and a supplier of each name, and their keys."""
    engine = make_engine(database_url, pool_size=1, max_overflow=0, application_name="neighbours")
    with make_sessionmaker(engine).begin() as session:
        create_operations_team(session, _TEAM)
        for name in names:
            create_organisation(session, name)
            create_import_supplier(session, code=name, organisation_name=name)
        keys = {name: issue_api_key(session, organisation_name=name) for name in names}
    engine.dispose()
    return keys


def _migrate(url: str, key: str, accounts: Iterator[dict[str, Any]], clients: int) -> Times:
    times, taking = Times(), threading.Lock()

    def work() -> None:
        with requests.Session() as http:
            http.trust_env = False
            _log_in(http, url, key)
            while True:
                with taking:
                    account = next(accounts, None)
                if account is None:
                    return
                _migrate_one(http, url, account, times)

    threads = [threading.Thread(target=work) for _ in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return times


def _log_in(http: requests.Session, url: str, key: str) -> None:
    while True:
        answer = http.post(
            f"{url}/v1/graphql/", json={"query": _LOG_IN, "variables": {"key": key}}, timeout=60
        ).json()
        if answer.get("data"):
            http.headers["Authorization"] = f"Token {answer['data']['obtainServiceToken']['token']}"
            return
        # From this address too many wrong keys came, as the attackers share it here.
        time.sleep(2)


def _migrate_one(http: requests.Session, url: str, account: dict[str, Any], times: Times) -> None:
    order = {
        "external_account_number": account["external_account_number"],
        "import_supplier_code": account["import_supplier"],
        "operations_team_name": _TEAM,
    }
    began = time.monotonic()
    _send(http, f"{url}{_API}/account-import-process/create-or-update/", account, times)
    staged = time.monotonic()
    _send(http, f"{url}{_API}/account-import-process/process/", order, times)
    ended = time.monotonic()
    times.seconds.append(ended - began)
    times.stage.append(staged - began)
    times.process.append(ended - staged)


def _send(http: requests.Session, url: str, body: dict[str, Any], times: Times) -> None:
    """Send a request until it succeeds, as a supplier's program does."""
    while True:
        answer = http.post(url, json=body, timeout=60)
        if answer.status_code in (200, 201):
            return
        times.others[str(answer.status_code)] += 1
        if answer.status_code not in (202, 429, 503):
            raise click.ClickException(f"{answer.status_code} {answer.text[:300]}")
        time.sleep(float(answer.headers.get("Retry-After", 1)))


class _Attack:
    """The attackers, from the beginning of the block to its end, and what they were answered."""

    def __init__(self, *arguments: object) -> None:
        self._command = [sys.executable, "-m", "benchmarks.hostile", *map(str, arguments)]
        self.seen: dict[str, int] = {}

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            self._command, stdout=subprocess.PIPE, text=True, start_new_session=True
        )
        return self

    def __exit__(self, *_error: object) -> None:
        self.ended_early = self._process.poll() is not None
        self._process.terminate()
        answered = json.loads(self._process.communicate(timeout=30)[0])
        self.rate, self.seen = answered["answers a second"], answered["seen"]


def _show(what: str, times: Times) -> None:
    parts = ", ".join(
        f"{name} {statistics.median(values) * 1000:.0f} and {_p95(values):.0f}"
        for name, values in (("stage", times.stage), ("process", times.process))
    )
    click.echo(
        f"{what:16} median {times.median():6.0f} ms   95 % {times.p95():6.0f} ms   ({parts})   "
        f"sent again: {dict(times.others) or 'nothing'}"
    )


@click.command()
@click.option("--accounts", type=click.IntRange(min=40), default=500, show_default=True, help="In each part.")
@click.option("--clients", type=click.IntRange(min=1), default=4, show_default=True, help="Of the quiet one.")
@click.option("--seconds", type=click.FloatRange(max=600), default=240.0, show_default=True)
@click.option("--only", multiple=True, type=click.Choice(list(TRICKS)), help="Only these tricks.")
@click.option(
    "--attackers-niceness",
    type=click.IntRange(0, 19),
    default=19,
    help="How much of the processors they leave.",
    show_default=True,
)
@click.option(
    "--connections", type=click.IntRange(1, 60), default=1, show_default=True, help="Of each trick."
)
@click.option("--verbose", is_flag=True, help="What the attackers were answered, and what took the time.")
def main(
    *,
    accounts: int,
    clients: int,
    seconds: float,
    only: tuple[str, ...],
    attackers_niceness: int,
    connections: int,
    verbose: bool,
) -> None:
    """Measure what a hostile organisation costs a quiet one."""
    click.echo(describe_machine())
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        with running_service(Path(folder) / "home", 0) as settings:
            url = settings["MIGRATION_SERVICE_WEB_URL"]
            _wait_for(url)
            keys = _set_up(settings["DATABASE_URL"], ["QUIET", "HOSTILE"])
            book = generate_accounts(4 * accounts, supplier="QUIET", seed=3)
            _migrate(url, keys["QUIET"], islice(book, accounts // 2), clients)  # everything is warm then
            alone = _migrate(url, keys["QUIET"], islice(book, accounts // 2), clients)
            _show("alone", alone)
            whom = [url, keys["HOSTILE"], "HOSTILE", _TEAM, find_prefix(keys["QUIET"]) or ""]
            with _Attack(attackers_niceness, seconds, connections, *whom, *only) as attack:
                time.sleep(_WARM_UP_SECONDS)
                spent = _processor_seconds()
                under = _migrate(url, keys["QUIET"], islice(book, accounts), clients)
                spent = {name: used - spent.get(name, 0.0) for name, used in _processor_seconds().items()}
            _show("under attack", under)
            click.echo(f"{'the attackers':16} {attack.rate:.0f} answers a second")
            if verbose:
                _show_counts({f"{name}, s": round(used, 1) for name, used in spent.items() if used > 0.1})
                _show_counts(attack.seen)
            time.sleep(_REST_SECONDS)
            again = _migrate(url, keys["QUIET"], islice(book, accounts // 2), clients)
            _show("alone again", again)
    # Both, so that what else the machine does meanwhile counts on both sides.
    alone.seconds += again.seconds
    median, p95 = under.median() / alone.median(), under.p95() / alone.p95()
    click.echo(f"ratio            median {median:.2f}   95 % {p95:.2f}   (at most {FACTOR:g})")
    if attack.ended_early:
        raise click.ClickException("The attack ended before the accounts had arrived: raise --seconds.")
    sys.exit(median > FACTOR or p95 > FACTOR or len(under.seconds) < accounts)


def _processor_seconds() -> dict[str, float]:
    """Processor time of each program below this one."""
    spent: Counter[str] = Counter()
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):
            words = " ".join(process.cmdline())
            name = next((it for it in _PROGRAMS if it in words), "others")
            times = process.cpu_times()
            spent[name] += times.user + times.system
    return dict(spent)


#: Words in the command lines of the programs.
_PROGRAMS = (
    *("gunicorn", "interactive@", "batch@", "maintenance@", " beat", "flower"),
    *("postgres", "valkey", "benchmarks.hostile"),
)


def _show_counts(seen: Mapping[str, float]) -> None:
    for name, number in sorted(seen.items()):
        click.echo(f"    {name}: {number}")


def _wait_for(url: str) -> None:
    until = time.monotonic() + 60
    while True:
        try:
            requests.get(f"{url}/health/ready", timeout=5).raise_for_status()
            return
        except requests.RequestException:
            if time.monotonic() > until:
                raise
            time.sleep(0.5)


if __name__ == "__main__":
    main()
