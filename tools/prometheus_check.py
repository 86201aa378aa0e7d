"""Tries everything in monitoring/ with a real Prometheus: `make prometheus-check`.

It needs Debian's package prometheus. First every alert is tried on invented series (`alert_rules`). Then the
whole service is started in a temporary folder with a sample book. A Prometheus scrapes it as
monitoring/prometheus.yml says, but every second, and evaluates the alerts with their waiting times and ranges
divided by 30. Every query of the dashboard and every alert must be understood and have data. One that only
selects failures must have data without its selection. No alert may fire while a batch runs. With frozen
workers of batches and of maintenance the alerts of that fault must fire, and the doctor must name the queue
and not beat. At the end the service is stopped, and the alert for that must fire.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
import psycopg
import requests
from alert_rules import check_rules
from scratch_service import COMMAND, running_service, wait_until

from migration_service_local.demo.added_data import VENDOR, add_to_account
from migration_service_local.demo.client import MigrationError, RequestOutcome, SupplierClient
from migration_service_local.demo.sample import KEY_FILE, SUPPLIER, TEAM
from migration_service_local.samples import generate_accounts, generate_lines
from migration_service_local.servers.ports import LOOPBACK, random_free_port

MONITORING = Path(__file__).resolve().parent.parent / "monitoring"
SAMPLE, BATCH_LINES = 100, 25_000
#: The value of a variable of the dashboard if Prometheus scrapes every second.
RATE_INTERVAL = "30s"
#: Series that only failures have. A healthy service does not have them.
EMPTY_WHEN_WELL = {"MigrationTasksFail", "MigrationAttemptsFail"}
#: A value changed between two counts of the accounts, which are half a minute apart.
COUNTED_TWICE = "changes(migration_counted_timestamp_seconds[5m]) > 1"
_COMPARISON = re.compile(r"\s*(==|>|<)\s*[\d.e+]+\s*$")
#: What limits the series that are compared, and does not hold in a healthy service.
_CONDITION = re.compile(r"\s+(?:and|unless)\s+")
#: Waiting times and ranges of the alerts: `for: 5m` and `[10m]`.
_MINUTES = re.compile(r"(for: |\[)(\d+)m")
#: The traffic of this tool has a payment vendor that fails, and a batch that would fill a small disk within a
#: day: these alerts may fire.
OF_THE_TRAFFIC = {"MigrationVendorFails", "MigrationServerErrors", "MigrationDiskFills"}
#: Seconds until a frozen worker is noticed: a batch counts as stalled after 120.
FREEZE_SECONDS = 240
_SELECTION = re.compile(r"\{[^}]*\}")


class Prometheus:
    """A Prometheus on this machine."""

    def __init__(self, url: str) -> None:
        self.url = url

    def is_ready(self) -> bool:
        """Return True if it answers."""
        try:
            return requests.get(f"{self.url}/-/ready", timeout=5).ok
        except requests.ConnectionError:
            return False

    def ask(self, query: str) -> list[dict[str, Any]]:
        """Return the series that a query selects now.

        Exit with the reason if Prometheus refuses the query.
        """
        response = requests.get(f"{self.url}/api/v1/query", params={"query": query}, timeout=30)
        if not response.ok:
            sys.exit(f"Prometheus refuses {query}: {response.text}")
        found = response.json()["data"]["result"]
        return [series for series in found if series["value"][1] != "NaN"]

    def alerts(self) -> dict[str, dict[str, Any]]:
        """Return every alert rule by its name, with its state and health."""
        groups = requests.get(f"{self.url}/api/v1/rules", timeout=30).json()["data"]["groups"]
        return {rule["name"]: rule for group in groups for rule in group["rules"]}


def main() -> None:
    """Run the service and Prometheus, and try everything. Exit with status 1 if something has no data."""
    for program in ("prometheus", "promtool"):
        if shutil.which(program) is None:
            sys.exit(f"{program} is not installed. Run: apt-get install prometheus")
    check_rules()
    with ExitStack() as end:
        folder = Path(end.enter_context(tempfile.TemporaryDirectory(prefix="prometheus-check-")))
        folder.chmod(0o711)
        service = end.enter_context(ExitStack())
        settings = service.enter_context(running_service(folder / "home", SAMPLE))
        prometheus = end.enter_context(running_prometheus(folder, settings["MIGRATION_SERVICE_WEB_URL"]))
        wait_until(lambda: is_migrated(folder / "home"), "the sample book")
        batch = start_paused_batch(folder)
        with traffic(folder / "home", settings), replication_slot(folder / "home", settings):
            wait_until(lambda: len(prometheus.ask(COUNTED_TWICE)) > 0, "a second count of the accounts")
            missing = check_dashboard(prometheus) + check_alerts(prometheus)
        check_healthy_batch(folder, prometheus, batch)
        check_frozen_worker(folder, prometheus)
        service.close()
        down = "MigrationServiceDown"
        wait_until(lambda: prometheus.alerts()[down]["state"] != "inactive", f"the alert {down}")
        print(f"ok: {down} comes when the web server is gone")
    if missing:
        sys.exit(f"No data for: {'; '.join(missing)}")


@contextmanager
def replication_slot(home: Path, settings: dict[str, str]) -> Iterator[None]:
    """Give PostgreSQL a replication slot, such as a standby has, because metrics exist only with one."""
    password = json.loads((home / "secrets.json").read_text())["postgres_password"]
    with psycopg.connect(
        settings["DATABASE_URL"], user="postgres", password=password, autocommit=True
    ) as connection:
        connection.execute("SELECT pg_create_physical_replication_slot('check', true)")
        yield
        connection.execute("SELECT pg_drop_replication_slot('check')")


@contextmanager
def running_prometheus(folder: Path, web_url: str) -> Iterator[Prometheus]:
    """Run Prometheus with our configuration, which promtool checks first, for this web server."""
    rules = _MINUTES.sub(
        lambda match: f"{match[1]}{int(match[2]) * 2}s", (MONITORING / "alerts.yml").read_text()
    )
    (folder / "alerts.yml").write_text(rules)
    configuration = (MONITORING / "prometheus.yml").read_text()
    for ours, here in (("127.0.0.1:8000", web_url.removeprefix("http://")), ("15s", "1s")):
        if ours not in configuration:
            sys.exit(f"monitoring/prometheus.yml does not have {ours} any more.")
        configuration = configuration.replace(ours, here)
    (folder / "prometheus.yml").write_text(configuration)
    subprocess.run(["promtool", "check", "config", str(folder / "prometheus.yml")], check=True)
    address = f"{LOOPBACK}:{random_free_port()}"
    options = {"config.file": "prometheus.yml", "storage.tsdb.path": "tsdb", "web.listen-address": address}
    with (folder / "prometheus.log").open("wb") as log:
        process = subprocess.Popen(
            ["prometheus", *(f"--{name}={value}" for name, value in options.items())],
            cwd=folder,
            stdout=log,
            stderr=log,
        )
    try:
        prometheus = Prometheus(f"http://{address}")
        wait_until(prometheus.is_ready, "Prometheus")
        yield prometheus
    finally:
        process.terminate()
        process.wait(30)


def is_migrated(home: Path) -> bool:
    """Return True if the whole sample book is in the service."""
    return read_demo(home).get("migrated") == str(SAMPLE)


def read_demo(home: Path) -> dict[str, str]:
    """Return the progress of the sample migration."""
    try:
        return dict(json.loads((home / "demo.json").read_text()))
    except FileNotFoundError:
        return {}


def start_paused_batch(folder: Path) -> str:
    """Start a batch, because some metrics exist only while one runs. Return its id."""
    book = folder / "book.ndjson"
    book.write_bytes(b"".join(generate_lines(BATCH_LINES, supplier=SUPPLIER, seed=2)))
    started = command(
        folder, "batches", "start", str(book), "--supplier", SUPPLIER, "--team", TEAM, "--mode", "import"
    )
    command(folder, "batches", "pause", str(started["batch_id"]))
    return str(started["batch_id"])


def check_healthy_batch(folder: Path, prometheus: Prometheus, batch: str) -> None:
    """Let the batch run to its end. Exit if an alert fires wrongly meanwhile."""
    command(folder, "batches", "resume", batch)
    time.sleep(3)
    fired: set[str] = set()
    scrapes = 0
    while prometheus.ask('migration_open_batches{state="RUNNING"}') or not scrapes:
        scrapes += 1
        fired |= firing(prometheus) - OF_THE_TRAFFIC
        time.sleep(1)
    if fired or scrapes < 15:
        sys.exit(f"In a healthy batch, asked {scrapes} times, these fired: {', '.join(fired) or 'none'}")
    print(f"ok: no alert in a healthy batch, asked {scrapes} times")


def check_frozen_worker(folder: Path, prometheus: Prometheus) -> None:
    """Freeze the worker of batches and maintenance. Exit unless the alerts and the doctor say so."""
    workers = [
        process
        for process in psutil.Process().children(recursive=True)
        if {"-Q", "batch,vendors,maintenance"} <= {*process.cmdline()}
    ]
    if not workers:
        sys.exit("No process was found that takes the queues batch and maintenance.")
    for worker in workers:
        worker.suspend()
    try:
        book = str(folder / "book.ndjson")
        command(folder, "batches", "start", book, "--supplier", SUPPLIER, "--mode", "validate")
        expected = {"MigrationBatchStalled", "MigrationSweepDead"}
        wait_until(lambda: expected <= firing(prometheus), f"all of {expected}", FREEZE_SECONDS)
        found = {finding["part"]: finding["verdict"] for finding in diagnose(folder)}
    finally:
        for worker in workers:
            worker.resume()
    if (found["queue maintenance"], found["batches"]) != ("wrong", "warning"):
        sys.exit(f"The doctor does not see the frozen worker: {found}")
    print(f"ok: a frozen worker: {', '.join(sorted(expected))}, and the doctor names its queue")


def firing(prometheus: Prometheus) -> set[str]:
    """Return the names of the alerts that fire now."""
    return {name for name, rule in prometheus.alerts().items() if rule["state"] == "firing"}


def diagnose(folder: Path) -> list[dict[str, str]]:
    """Return the lines of the doctor by part. The last line of a part counts."""
    done = subprocess.run(
        [str(COMMAND), "doctor", "--json"],
        env=os.environ | {"MIGRATION_SERVICE_HOME": str(folder / "home")},
        check=False,
        capture_output=True,
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


def command(folder: Path, *arguments: str) -> dict[str, Any]:
    """Run the operators' command, and return its JSON output."""
    done = subprocess.run(
        [str(COMMAND), *arguments, "--json"],
        env=os.environ | {"MIGRATION_SERVICE_HOME": str(folder / "home")},
        check=True,
        capture_output=True,
    )
    return dict(json.loads(done.stdout))


@contextmanager
def traffic(home: Path, settings: dict[str, str]) -> Iterator[None]:
    """Send accounts all the time, and payment instructions whose vendor fails, which are answered 500."""
    over = threading.Event()
    outcome = RequestOutcome()

    def send() -> None:
        with SupplierClient(settings["MIGRATION_SERVICE_WEB_URL"], outcome, over, add_to_account) as client:
            client.log_in((home / KEY_FILE).read_text().strip())
            for account in generate_accounts(10_000, supplier=SUPPLIER, seed=3):
                client.try_to_migrate(account, TEAM)
                number = account["external_account_number"]
                pair = {"import_supplier": SUPPLIER, "external_account_number": number}
                instruction = pair | {"vendor": VENDOR, "reference": "card-error-1", "type": "CARD"}
                # Not sent again: after five failures in a row the vendor is left alone, and there is no data.
                with suppress(MigrationError):  # the service is being stopped
                    client.send(
                        "POST", "/v1/data-import/payment-instruction/create/", again=(), json=instruction
                    )
                if over.wait(0.2):
                    return

    thread = threading.Thread(target=send)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def check_dashboard(prometheus: Prometheus) -> list[str]:
    """Run every query of the dashboard. Return those without data."""
    missing = []
    for panel in json.loads((MONITORING / "grafana-dashboard.json").read_text())["panels"]:
        for target in panel["targets"]:
            found = prometheus.ask(target["expr"].replace("$__rate_interval", RATE_INTERVAL))
            print(f"{'ok' if found else 'NO DATA'}: {panel['title']}: {len(found)} series")
            if not found:
                missing.append(f"{panel['title']}: {target['expr']}")
    return missing


def check_alerts(prometheus: Prometheus) -> list[str]:
    """Check the health of every alert and the data that it compares. Return those without data."""
    missing = []
    for name, rule in prometheus.alerts().items():
        if rule["health"] != "ok":
            sys.exit(f"{name} is {rule['health']}: {rule.get('lastError')}")
        compared = _COMPARISON.sub("", _CONDITION.split(rule["query"])[0])
        if name in EMPTY_WHEN_WELL:
            compared = _SELECTION.sub("", compared)
        found = prometheus.ask(compared)
        print(f"{'ok' if found else 'NO DATA'}: {name}: {len(found)} series, {rule['state']}")
        if not found:
            missing.append(f"{name}: {compared}")
    return missing


if __name__ == "__main__":
    main()
