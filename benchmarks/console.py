"""What the pages of the console cost: `python -m benchmarks.console`, with a million accounts.

It has a batch checked of which 3 % are broken, and asks for its moving part as an open browser does while it
runs. Then it fills the tables with accounts, and asks for each page again and again over one connection.
A million accounts take 11 GB of disk, and 3 GB more while they are written. It ends before less than 8 GB
are free.
"""

import os
import re
import shutil
import statistics
import sys
import time
from collections.abc import Iterator
from typing import Any, cast

import click
import psutil
import psycopg
import requests

from benchmarks import report
from benchmarks.payloads import SUPPLIER, TEAM
from benchmarks.prepare import say
from benchmarks.seed import fill_accounts, sessions, set_up_caller
from benchmarks.stack import EVEN, Stack
from migration_service.services.access.operators import OperatorRole, create_operator, set_operator_password
from migration_service_local.samples import generate_lines

_NAME, _PASSWORD = "bench", "a password for benchmarks"
#: Accounts that are created before one of them, of the usual size, is copied.
_ORIGINALS = 50
#: How often the moving part of a page is asked for.
_POLLS = 20
#: Bytes of disk that are left free.
_FREE = 8_000_000_000
#: Bytes that the next portion of accounts may take, with what is logged of it.
_PORTION_NEEDS = 4_000_000_000
_TOKEN = re.compile(r'name="csrf_token"[^>]*value="([^"]+)"')


@click.command()
@click.option("--accounts", default=1_000_000, show_default=True, help="Imported accounts in the tables.")
@click.option("--lines", default=100_000, show_default=True, help="Lines of the batch.")
@click.option("--times", default=30, show_default=True, help="How often each page is asked for.")
def main(accounts: int, lines: int, times: int) -> None:
    """Measure the pages of the console on this machine."""
    os.environ["MIGRATION_SERVICE_CONSOLE"] = "on"
    with Stack(EVEN) as stack, requests.Session() as browser:
        browser.trust_env = False
        token = set_up_caller(stack.settings)
        with sessions(stack.settings).begin() as session:
            create_operator(session, _NAME, OperatorRole.ADMINISTER)
            set_operator_password(session, _NAME, _PASSWORD)
        stack.start_service()
        base = f"http://127.0.0.1:{stack.web_port}"
        _log_in(browser, base)
        _write(f"{report.describe_machine()}\n\n{accounts:,} accounts, {lines:,} lines\n")
        say("creating accounts ...")
        _wait(_start_batch(base, token, "import", _ORIGINALS, 0.0), token)
        say("checking a batch ...")
        address = _start_batch(base, token, "validate", lines, 0.03)
        batch = f"/batches/{address.rstrip('/').rpartition('/')[2]}/"
        _wait_until_half_done(address, token)
        _write("| open page | processor time of an answer | asked after | of a core |")
        _write("| --- | --- | --- | --- |")
        pages = (("batch that runs", batch), ("overview", "/"), ("work in progress", "/work/"))
        for name, path in pages:
            _write_cost(stack, browser, name, f"{base}/console{path}")
        _wait(address, token)
        _fill(stack, accounts)
        for name, path in pages[1:]:
            _write_cost(stack, browser, f"{name}, with the accounts", f"{base}/console{path}")
        _write("\n| page | median | 95 % |\n| --- | --- | --- |")
        for name, path in _pages(browser, base, batch):
            spent = sorted(_ask(browser, f"{base}/console{path}") for _ in range(times))
            _write(f"| {name} | {_ms(statistics.median(spent))} | {_ms(spent[-2])} |")


def _write(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _fill(stack: Stack, accounts: int) -> None:
    say("filling the tables ...")

    def check_room() -> None:
        free = shutil.disk_usage(stack.folder).free
        if free < _FREE + _PORTION_NEEDS:
            sys.exit(f"The disk has only {free / 1e9:.1f} GB free: give fewer --accounts.")

    before = _database_bytes(stack)
    fill_accounts(stack.superuser_url(), accounts, place=_ORIGINALS // 2, check_room=check_room)
    taken = _database_bytes(stack) - before
    say(f"{accounts:,} accounts take {taken / 1e9:.1f} GB, {taken / accounts:,.0f} bytes each")
    time.sleep(35)  # the workers count the accounts every 30 seconds


def _database_bytes(stack: Stack) -> int:
    with psycopg.connect(stack.superuser_url()) as connection:
        row = connection.execute("SELECT pg_database_size(current_database())").fetchone()
    return int(row[0]) if row else 0


def _start_batch(base: str, token: str, mode: str, lines: int, broken: float) -> str:
    """Start a batch. Return its address."""
    answer = requests.post(
        f"{base}/v1/data-import/batches/",
        params={"import_supplier": SUPPLIER, "mode": mode, "operations_team_name": TEAM},
        data=b"".join(generate_lines(lines, supplier=SUPPLIER, seed=lines, broken_share=broken)),
        headers={"Authorization": f"Token {token}", "Content-Type": "application/x-ndjson"},
        timeout=600,
    )
    assert answer.status_code == 202, answer.text
    return f"{base}{answer.headers['Location']}"


def _wait_until_half_done(address: str, token: str) -> None:
    """Wait until half of the lines of a batch have their outcome."""
    while (found := _read_batch(address, token))["counts"]["PENDING"] * 2 > found["lines"]:
        time.sleep(0.5)


def _wait(address: str, token: str) -> None:
    """Wait until a batch has ended."""
    while _read_batch(address, token)["state"] != "COMPLETED":
        time.sleep(1)


def _read_batch(address: str, token: str) -> dict[str, Any]:
    answer = requests.get(address, headers={"Authorization": f"Token {token}"}, timeout=60)
    return cast(dict[str, Any], answer.json())


def _log_in(browser: requests.Session, base: str) -> None:
    page = browser.get(f"{base}/console/login/", timeout=30).text
    found = _TOKEN.search(page)
    assert found, page
    form = {"csrf_token": found[1], "name": _NAME, "password": _PASSWORD}
    answer = browser.post(f"{base}/console/login/", data=form, timeout=30)
    assert answer.url == f"{base}/console/", answer.url


def _pages(browser: requests.Session, base: str, batch: str) -> Iterator[tuple[str, str]]:
    code = "invalid_phone_number"
    failed = browser.get(f"{base}/console{batch}lines/?status=FAILED", timeout=60).text
    line = re.search(r"/lines/(\d+)/", failed)
    assert line, failed
    number = f"{50_000_000 + 1:08d}"
    yield from (
        ("overview", "/"),
        ("supplier", f"/suppliers/{SUPPLIER}/"),
        ("waves", "/waves/"),
        ("batches", "/batches/"),
        ("batch", batch),
        ("its moving part", f"{batch}?part=1"),
        ("code in the batch", f"{batch}codes/{code}/"),
        ("failed lines", f"{batch}lines/?status=FAILED"),
        ("line", f"{batch}lines/{line[1]}/"),
        ("search", f"/accounts/?q=B-{number}x"),
        ("account", f"/suppliers/{SUPPLIER}/accounts/{number}/"),
        ("work in progress", "/work/"),
        ("audit", "/audit/"),
        ("keys", "/setup/keys/"),
    )


def _ask(browser: requests.Session, url: str) -> float:
    started = time.perf_counter()
    answer = browser.get(url, timeout=120)
    spent = time.perf_counter() - started
    assert answer.status_code == 200, (url, answer.status_code)
    return spent


def _write_cost(stack: Stack, browser: requests.Session, name: str, url: str) -> None:
    """Ask for the moving part of a page some times in a row, and write what that costs an open page."""
    waits, before = [], _processor_seconds(stack)
    for _ in range(_POLLS):
        answer = browser.get(url, params={"part": "1"}, timeout=120)
        waits.append(int(answer.headers["X-Poll-After"]))
    each = (_processor_seconds(stack) - before) / _POLLS
    wait = statistics.median(waits)
    often = f"{wait:.0f} s | {each / wait:.2%}" if wait else "never | 0 %"
    _write(f"| {name} | {_ms(each)} | {often} |")


def _processor_seconds(stack: Stack) -> float:
    """Return the processor time of the web processes, and of their connections to the database."""
    with psycopg.connect(stack.superuser_url()) as connection:
        rows = connection.execute(
            "SELECT pid FROM pg_stat_activity WHERE application_name LIKE 'migration-web%'"
        ).fetchall()
    backends = [psutil.Process(pid) for (pid,) in rows]
    times = [process.cpu_times() for process in (*stack.processes("web"), *backends)]
    return float(sum(it.user + it.system for it in times))


def _ms(seconds: float) -> str:
    return f"{1000 * seconds:.0f} ms"


if __name__ == "__main__":
    main()
