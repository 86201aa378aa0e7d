"""How fast the pages of the console answer: `python -m benchmarks.console --accounts 1000000 --lines 100000`.

It fills the tables with accounts, has a batch checked of which 3 % are broken, and asks for each page again
and again over one connection. Then it asks for the moving part of a page as an open browser does.
"""

import os
import re
import statistics
import sys
import time
from collections.abc import Iterator

import click
import requests

from benchmarks import report
from benchmarks.payloads import SUPPLIER, TEAM
from benchmarks.prepare import say
from benchmarks.seed import fill_accounts, sessions, set_up_caller
from benchmarks.stack import EVEN, Stack
from migration_service.services.access.operators import OperatorRole, create_operator, set_operator_password
from migration_service_local.samples import generate_lines

_NAME, _PASSWORD = "bench", "a password for benchmarks"
#: Accounts that are created before they are copied.
_ORIGINALS = 50
#: Seconds between two questions of an open page, and how many are asked.
_POLL_SECONDS, _POLLS = 2.0, 10
_TOKEN = re.compile(r'name="csrf_token"[^>]*value="([^"]+)"')


@click.command()
@click.option("--accounts", default=1_000_000, show_default=True, help="Imported accounts in the tables.")
@click.option("--lines", default=100_000, show_default=True, help="Lines of the batch.")
@click.option("--times", default=30, show_default=True, help="How often each page is asked for.")
def main(accounts: int, lines: int, times: int) -> None:
    """Measure the pages of the console on this machine."""
    os.environ["MIGRATION_SERVICE_CONSOLE"] = "on"
    with Stack(EVEN) as stack:
        token = set_up_caller(stack.settings)
        with sessions(stack.settings).begin() as session:
            create_operator(session, _NAME, OperatorRole.ADMINISTER)
            set_operator_password(session, _NAME, _PASSWORD)
        stack.start_service()
        base = f"http://127.0.0.1:{stack.web_port}"
        say("creating accounts ...")
        _run_batch(base, token, "import", _ORIGINALS, 0.0)
        fill_accounts(stack.superuser_url(), accounts)
        say("checking a batch ...")
        batch_id = _run_batch(base, token, "validate", lines, 0.03)
        time.sleep(35)  # the workers count the accounts every 30 seconds
        with requests.Session() as browser:
            browser.trust_env = False
            _log_in(browser, base)
            sys.stdout.write(f"{report.describe_machine()}\n\n{accounts:,} accounts, {lines:,} lines\n\n")
            sys.stdout.write("| page | median | 95 % |\n| --- | --- | --- |\n")
            for name, path in _pages(browser, base, batch_id):
                spent = sorted(_ask(browser, f"{base}/console{path}") for _ in range(times))
                sys.stdout.write(f"| {name} | {_ms(statistics.median(spent))} | {_ms(spent[-2])} |\n")
            share = _poll(stack, browser, f"{base}/console/batches/{batch_id}/?part=1")
            sys.stdout.write(f"\nAn open page takes {share:.2%} of a core.\n")


def _run_batch(base: str, token: str, mode: str, lines: int, broken: float) -> str:
    answer = requests.post(
        f"{base}/v1/data-import/batches/",
        params={"import_supplier": SUPPLIER, "mode": mode, "operations_team_name": TEAM},
        data=b"".join(generate_lines(lines, supplier=SUPPLIER, seed=lines, broken_share=broken)),
        headers={"Authorization": f"Token {token}", "Content-Type": "application/x-ndjson"},
        timeout=600,
    )
    assert answer.status_code == 202, answer.text
    address = f"{base}{answer.headers['Location']}"
    while True:
        found = requests.get(address, headers={"Authorization": f"Token {token}"}, timeout=60).json()
        if found["state"] == "COMPLETED":
            return str(found["batch_id"])
        time.sleep(1)


def _log_in(browser: requests.Session, base: str) -> None:
    page = browser.get(f"{base}/console/login/", timeout=30).text
    found = _TOKEN.search(page)
    assert found, page
    form = {"csrf_token": found[1], "name": _NAME, "password": _PASSWORD}
    answer = browser.post(f"{base}/console/login/", data=form, timeout=30)
    assert answer.url == f"{base}/console/", answer.url


def _pages(browser: requests.Session, base: str, batch_id: str) -> Iterator[tuple[str, str]]:
    batch = f"/batches/{batch_id}/"
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


def _poll(stack: Stack, browser: requests.Session, url: str) -> float:
    """Return the part of a core that the web processes need for one open page."""
    before, started = _processor_seconds(stack), time.monotonic()
    for _ in range(_POLLS):
        _ask(browser, url)
        time.sleep(_POLL_SECONDS)
    return (_processor_seconds(stack) - before) / (time.monotonic() - started)


def _processor_seconds(stack: Stack) -> float:
    times = [process.cpu_times() for process in stack.processes("web")]
    return float(sum(it.user + it.system for it in times))


def _ms(seconds: float) -> str:
    return f"{1000 * seconds:.0f} ms"


if __name__ == "__main__":
    main()
