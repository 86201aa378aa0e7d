"""What web servers survive, and their rate on an empty endpoint: the measurements of decision 11.

`MIGRATION_SERVICE_SECRET_KEY=... python -m benchmarks.web_servers NAME...` measures the servers of SERVERS
with these names. Their packages are not among the project's: install them into the environment first. Each
server serves `app`, below, with two processes of 320 threads if it can.
"""

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from functools import partial
from statistics import median
from typing import Any

import psutil

from benchmarks.wrk import run_wrk
from migration_service_local.servers.ports import LOOPBACK, random_free_port

_APP = "benchmarks.web_servers:app"
_THREADS = 320
_GUNICORN = ("gunicorn", "--workers", "2", "--threads", str(_THREADS), "--worker-connections", "2000")
_GRANIAN = ("granian", "--interface", "wsgi", "--workers", "2", "--blocking-threads", str(_THREADS))

#: Command lines, to which the port is added.
SERVERS: dict[str, tuple[str, ...]] = {
    "ours": (*_GUNICORN, "--config", "gunicorn.conf.py", _APP, "--bind", f"{LOOPBACK}:PORT"),
    "gthread": (
        *(*_GUNICORN, "--config", "/dev/null", "--worker-class", "gthread", "--graceful-timeout", "40"),
        *("--keep-alive", "75", _APP, "--bind", f"{LOOPBACK}:PORT"),
    ),
    "granian": (
        *(*_GRANIAN, "--http", "1", "--no-ws", "--backpressure", "1000"),
        *("--http1-header-read-timeout", "5000", "--host", LOOPBACK, "--port", "PORT", _APP),
    ),
    "waitress": (
        *("waitress", f"--threads={_THREADS}", "--connection-limit=2000", "--channel-timeout=5"),
        *("--cleanup-interval=1", "--asyncore-use-poll", f"--listen={LOOPBACK}:PORT", _APP),
    ),
    "cheroot": (
        *("cheroot", "--threads", str(_THREADS), "--max", str(_THREADS), "--timeout", "5"),
        *("--bind", f"{LOOPBACK}:PORT", _APP),
    ),
}
#: Connections of each kind of slow client: more than the two processes have threads.
_HELD = 800
#: Requests that wait for their outcome.
_WAITING = 250
#: Seconds that a client may hold its connection: as for the e2e tests, a few.
_TIME_LIMIT = 5
_GIVE_UP = 30.0
_ROUNDS, _SECONDS = 5, 3
_LARGE = bytes(3_000_000)
_HEAD = b"POST /read HTTP/1.1\r\nHost: x\r\nContent-Type: text/plain\r\n"


def app(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    """Answer at once, after a while, with much, or with the length of the body."""
    path = environ["PATH_INFO"]
    body = b'{"status":"ok"}\n'
    if path == "/wait":
        time.sleep(float(environ["QUERY_STRING"]))
    elif path == "/large":
        body = _LARGE
    elif path == "/read":
        body = b"%d\n" % len(environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0)))
    start_response("200 OK", [("Content-Type", "application/json"), ("Content-Length", str(len(body)))])
    return [body]


class Server:
    """A web server that runs. Use it in a `with` statement."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.port = random_free_port()

    def __enter__(self) -> "Server":
        words = [word.replace("PORT", str(self.port)) for word in SERVERS[self.name]]
        environment = os.environ | {
            "MIGRATION_SERVICE_REQUEST_SECONDS": str(_TIME_LIMIT),
            "MALLOC_ARENA_MAX": "2",
        }
        command, nowhere = [sys.executable, "-m", *words], subprocess.DEVNULL
        self.process = subprocess.Popen(command, env=environment, stdout=nowhere, stderr=nowhere)
        until = time.monotonic() + 30
        while not self.answers(1):
            if time.monotonic() > until or self.process.poll() is not None:
                sys.exit(f"{self.name} does not start: {' '.join(words)}")
            time.sleep(0.1)
        return self

    def __exit__(self, *_error: object) -> None:
        tree = self.tree()
        self.process.terminate()
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(15)
        for process in tree:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        self.process.wait()

    def tree(self) -> list[psutil.Process]:
        """Return its processes, none if it has ended."""
        try:
            process = psutil.Process(self.process.pid)
            return [process, *process.children(recursive=True)]
        except psutil.NoSuchProcess:
            return []

    def processor_seconds(self) -> float:
        """Return the processor time that its processes have used."""
        return float(sum(sum(process.cpu_times()[:2]) for process in self.tree()))

    def connect(self, *, buffer: int | None = None) -> socket.socket:
        """Return a connection, with a small receive buffer if one is given."""
        connection = socket.socket()
        if buffer:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
        connection.settimeout(10)
        connection.connect((LOOPBACK, self.port))
        return connection

    def get(self, path: str, timeout: float) -> int:
        """Return the status of an answer."""
        client = http.client.HTTPConnection(LOOPBACK, self.port, timeout=timeout)
        try:
            client.request("GET", path)
            response = client.getresponse()
            response.read()
            return response.status
        finally:
            client.close()

    def answers(self, timeout: float) -> bool:
        """Return whether the empty endpoint answers in time."""
        try:
            return self.get("/health/live", timeout) == 200
        except (OSError, http.client.HTTPException):
            return False

    def longest_wait(self) -> float:
        """Return the longest time, in seconds, that one of ten other clients waits for its answer."""
        waits = []
        for _ in range(10):
            began = time.monotonic()
            if not self.answers(_GIVE_UP):
                return float("inf")
            waits.append(time.monotonic() - began)
        return max(waits)


def hold(server: Server, sent: bytes, *, buffer: int | None = None) -> dict[str, float]:
    """Hold connections that have sent this and do nothing more. Return what that does to other clients."""
    with ExitStack() as stack:
        held = []
        refused = 0
        for _ in range(_HELD):
            try:
                held.append(stack.enter_context(server.connect(buffer=buffer)))
                held[-1].sendall(sent)
            except OSError:
                refused += 1
        others_wait = server.longest_wait()
        time.sleep(3 * _TIME_LIMIT)
        mine = {connection.getsockname()[1] for connection in held}
        return {
            "others wait, s": round(others_wait, 2),
            "refused": refused,
            "still held after 15 s": len(mine & _peers_of(server)),
        }


def _peers_of(server: Server) -> set[int]:
    """Return the ports of the clients whose connections the server has not closed."""
    found = psutil.net_connections("tcp4")
    held = [it for it in found if it.raddr and it.laddr.port == server.port]
    return {it.raddr.port for it in held if it.status in (psutil.CONN_ESTABLISHED, psutil.CONN_CLOSE_WAIT)}


def wait_together(server: Server) -> dict[str, float]:
    """Let requests wait for their outcome. Return what that does to other clients, and who got an answer."""
    with ThreadPoolExecutor(_WAITING) as pool:
        waiting = [pool.submit(server.get, "/wait?10", 60) for _ in range(_WAITING)]
        time.sleep(3)
        others_wait = server.longest_wait()
        answered = sum(it.exception() is None and it.result() == 200 for it in waiting)
    return {"others wait, s": round(others_wait, 2), "answered": answered}


def reload(server: Server) -> dict[str, float]:
    """Send SIGHUP under load. Return the requests that failed, and whether the processes were replaced."""
    old = {process.pid for process in server.tree()}
    until = time.monotonic() + 12
    with ThreadPoolExecutor(16) as pool:
        loads = [pool.submit(partial(_send_until, server, until)) for _ in range(16)]
        time.sleep(3)
        server.process.send_signal(signal.SIGHUP)
        totals = [load.result() for load in loads]
    ended = server.process.poll() is not None
    replaced = 0 if ended else len(old - {process.pid for process in server.tree()})
    sent, failed = (sum(column) for column in zip(*totals, strict=True))
    return {"sent": sent, "failed": failed, "replaced": replaced}


def _send_until(server: Server, until: float) -> tuple[int, int]:
    sent = failed = 0
    while time.monotonic() < until:
        sent += 1
        try:
            failed += server.get("/wait?0.02", 10) != 200
        except (OSError, http.client.HTTPException):
            failed += 1
            time.sleep(0.05)
    return sent, failed


#: Every behaviour, in this order: the last one may end the server.
PROBES: dict[str, Callable[[Server], dict[str, float]]] = {
    "slow heads": partial(hold, sent=_HEAD),
    "slow bodies": partial(hold, sent=_HEAD + b"Content-Length: 1000\r\n\r\nabc"),
    "slow readers": partial(hold, sent=b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n", buffer=4_096),
    "250 waiting": wait_together,
    "SIGHUP": reload,
}


def measure_rates(names: list[str]) -> None:
    """Print the rate of each server beside the first one, all running, in turn."""
    with ExitStack() as stack:
        servers = [stack.enter_context(Server(name)) for name in names]
        rates: dict[str, list[tuple[float, float]]] = {name: [] for name in names}
        for number in range(_ROUNDS + 1):
            for server in servers if number % 2 else reversed(servers):
                spent = server.processor_seconds()
                url = f"http://{LOOPBACK}:{server.port}/health/live"
                load = run_wrk(url, mode="get", seconds=_SECONDS, clients=16, token="", faults=True)
                spent = server.processor_seconds() - spent
                if number:  # the first round warms up
                    rates[server.name].append((load.rate, spent / max(1, load.requests) * 1e6))
    first = rates[names[0]]
    for name, rounds in rates.items():
        ratios = [mine[0] / other[0] for mine, other in zip(rounds, first, strict=True)]
        rate, cost = (median(column) for column in zip(*rounds, strict=True))
        print(f"{name:9} {rate:7.0f}/s  {median(ratios):.2f} x  {cost:5.0f} us of processor time a request")


def main(*names: str) -> None:
    """Print what each server survives, and then the rates."""
    print(f"load average {os.getloadavg()[0]:.1f}", flush=True)
    for name in names:
        for what, probe in PROBES.items():
            with Server(name) as server:
                print(f"{name:9} {what:13} {json.dumps(probe(server))}", flush=True)
    measure_rates(list(names))


if __name__ == "__main__":
    main(*(sys.argv[1:] or SERVERS))
