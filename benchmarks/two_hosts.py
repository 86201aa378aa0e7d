"""Workers on two other hosts: `python -m benchmarks.two_hosts`, as root.

The results are in docs/operators/scaling.md.

The hosts are network namespaces on a bridge (Debian: iproute2). PostgreSQL, Redis and the web server are on
the machine itself. On each host one worker process takes the queue `interactive`. Then one host is cut off
while it works. The other one has to create the accounts that the first one had begun, each once.
"""

import asyncio
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psycopg

from benchmarks.bench import QUICK, Bench
from benchmarks.prepare import running_bench
from benchmarks.seed import stage_copies
from benchmarks.stack import Stack
from benchmarks.wrk import Load, require_wrk, run_wrk
from migration_service_local.servers.ports import LOOPBACK
from migration_service_local.up.options import Scale

_BRIDGE, _GATEWAY = "migration0", "10.77.0.1"
_HOSTS = {"migration-a": "10.77.0.2", "migration-b": "10.77.0.3"}
_ROOT = Path(__file__).parent.parent
_STATES = "SELECT state, count(*) FROM account_import_process GROUP BY 1"
_CUT_AFTER, _SECONDS, _TIMEOUT = 3, 12, 120


def main() -> None:
    """Measure with two hosts, cut one off, and count the accounts."""
    require_wrk()
    with ExitStack() as over:
        folder = Path(over.enter_context(tempfile.TemporaryDirectory()))
        over.enter_context(_network())
        scale = Scale(web_workers=2, interactive_workers=1, batch_workers=1)
        bench = over.enter_context(running_bench(QUICK, 500, scale=scale))
        stack = bench.stack
        stack.stop("interactive")
        redis_port = stack.valkey.port
        over.enter_context(_reachable(stack.postgres.port, redis_port))
        for host in _HOSTS:
            over.enter_context(_worker(stack, host, folder))
        time.sleep(8)
        _say("two hosts", _load(bench, 6))
        _say_who(folder)
        _cut_one_off(bench)
        _say_who(folder)


def _cut_one_off(bench: Bench) -> None:
    before = _states(bench)
    timer = threading.Timer(_CUT_AFTER, _link, ["migration-b", "down"])
    timer.start()
    load = _load(bench, _SECONDS)
    _say(f"host b is cut off after {_CUT_AFTER} s", load)
    ended = time.monotonic()
    while in_progress := _states(bench)["IN_PROGRESS"]:
        if time.monotonic() - ended > _TIMEOUT:
            sys.exit(f"{in_progress} accounts are still in progress")
        time.sleep(0.5)
    created = _states(bench)["IMPORTED"] - before["IMPORTED"]
    with psycopg.connect(bench.stack.settings.database_url) as connection:
        row = connection.execute(
            "SELECT count(*), count(DISTINCT account_import_process_id) FROM account"
        ).fetchone()
    sys.stdout.write(
        f"the last account in progress was created {time.monotonic() - ended:.0f} s after the load ended; "
        f"{created} created in this run; accounts and distinct ones in all: {row}\n"
    )
    _link("migration-b", "up")


def _states(bench: Bench) -> Counter[str]:
    with psycopg.connect(bench.stack.settings.database_url) as connection:
        return Counter(dict(connection.execute(_STATES).fetchall()))


def _load(bench: Bench, seconds: float) -> Load:
    count = 4_000
    first = bench.take_numbers(count)
    stage_copies(bench.stack.settings, first, count, bench.templates)
    return run_wrk(
        bench.url + "/v1/data-import/account-import-process/process/",
        mode="process",
        seconds=seconds,
        clients=16,
        token=bench.token,
        bodies=bench.process_body,
        first=first,
        count=count,
        faults=True,
    )


@contextmanager
def _network() -> Iterator[None]:
    _ip("link", "add", _BRIDGE, "type", "bridge")
    try:
        _ip("addr", "add", f"{_GATEWAY}/24", "dev", _BRIDGE)
        _ip("link", "set", _BRIDGE, "up")
        for host, address in _HOSTS.items():
            _ip("netns", "add", host)
            _ip("link", "add", host, "type", "veth", "peer", "name", "eth0", "netns", host)
            _ip("link", "set", host, "master", _BRIDGE, "up")
            _ip("-n", host, "addr", "add", f"{address}/24", "dev", "eth0")
            _ip("-n", host, "link", "set", "eth0", "up")
            _ip("-n", host, "link", "set", "lo", "up")
        yield
    finally:
        for host in _HOSTS:
            subprocess.run(["ip", "netns", "delete", host], check=False, capture_output=True)
        _ip("link", "delete", _BRIDGE)


def _link(host: str, state: str) -> None:
    _ip("link", "set", host, state)


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True)


@contextmanager
def _reachable(*ports: int) -> Iterator[None]:
    """Forward connections from the bridge, because the servers listen on the loopback address only."""
    loop = asyncio.new_event_loop()

    async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(1 << 16):
                writer.write(data)
                await writer.drain()
        except OSError:
            pass
        finally:
            writer.close()

    async def forward(port: int) -> None:
        async def connect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            theirs, to_them = await asyncio.open_connection(LOOPBACK, port)
            await asyncio.gather(copy(reader, to_them), copy(theirs, writer))

        await asyncio.start_server(connect, _GATEWAY, port)

    for port in ports:
        loop.run_until_complete(forward(port))
    threading.Thread(target=loop.run_forever, daemon=True).start()
    yield
    loop.call_soon_threadsafe(loop.stop)


@contextmanager
def _worker(stack: Stack, host: str, folder: Path) -> Iterator[None]:
    urls = {
        "DATABASE_URL": stack.settings.database_url.replace(LOOPBACK, _GATEWAY),
        "REDIS_URL": stack.settings.redis_url.replace(LOOPBACK, _GATEWAY),
    }
    celery = [sys.executable, "-m", "celery", "--quiet", "-A", "celery_worker", "worker"]
    options = [
        "--without-gossip",
        "--without-mingle",
        "-Q",
        "interactive",
        "-c",
        "1",
        "-n",
        f"interactive@{host}",
    ]
    with (folder / f"{host}.log").open("wb") as log:
        process = subprocess.Popen(
            ["ip", "netns", "exec", host, *celery, *options],
            cwd=folder,
            env=os.environ
            | urls
            | {
                "MIGRATION_SERVICE_SECRET_KEY": stack.settings.secret_key,
                "MIGRATION_SERVICE_LOG_FORMAT": "json",
                "PYTHONPATH": str(_ROOT),
                "REMAP_SIGTERM": "SIGQUIT",
            },
            stdout=log,
            stderr=log,
        )
    yield
    process.terminate()
    process.wait(60)


def _say(what: str, load: Load) -> None:
    sys.stdout.write(
        f"{what}: {load.rate:.0f} accounts/s, p50 {load.p50_ms:.0f} ms, p99 {load.p99_ms:.0f} ms, "
        f"{load.refused} refused, {load.broken} broken\n"
    )
    sys.stdout.flush()


def _say_who(folder: Path) -> None:
    created = {host: (folder / f"{host}.log").read_text().count('"outcome": "SUCCEEDED"') for host in _HOSTS}
    sys.stdout.write(f"created so far by each host: {created}\n")


if __name__ == "__main__":
    main()
