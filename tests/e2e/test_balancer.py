"""Restarts of web servers fail no request behind the documented proxy, and each process has all metrics."""

import re
import shutil
import signal
import socket
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http.client import HTTPConnection, HTTPException
from itertools import count
from json import dumps
from pathlib import Path

import psutil
import pytest
import requests

from migration_service.config import Settings
from migration_service.web_server import GRACEFUL_SECONDS
from migration_service_local.samples import generate_accounts
from migration_service_local.servers.ports import LOOPBACK, random_free_port
from support.servers import running, temporary_folder, wait_until
from support.supplier_client import API, SupplierClient
from support.web_servers import HAPROXY, ROOT, is_answered, needs_nginx, nginx, proxied_web_server, web_server

pytestmark = pytest.mark.long


class Clients:
    """Clients that send one request after the other, and never send one again. Use it in a `with` statement.

    Half of them keep their connection, and half open one for each request.
    """

    def __init__(self, port: int, supplier: SupplierClient) -> None:
        self.answers: Counter[str] = Counter()
        self._port, self._supplier = port, supplier
        self._enough = threading.Event()
        self._payload = next(iter(generate_accounts(1, supplier=supplier.code, seed=1)))
        self._numbers = count()
        self._threads = [threading.Thread(target=self._run, args=[index % 2 == 0]) for index in range(6)]

    def __enter__(self) -> "Clients":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._enough.set()
        for thread in self._threads:
            thread.join()

    def wait_for(self, further: int) -> None:
        """Wait until as many requests more were answered."""
        before = self.answers.total()
        wait_until(lambda: self.answers.total() >= before + further, "further answers")

    def _run(self, keeps: bool) -> None:
        headers = {"Authorization": f"Token {self._supplier.token}", "Content-Type": "application/json"}
        connection = HTTPConnection(LOOPBACK, self._port, timeout=60)
        while not self._enough.wait(0.1):
            number = next(self._numbers)
            try:
                if number % 2:
                    body = dumps(self._payload | {"external_account_number": f"ROLL-{number}"})
                    path = f"{API}/account-import-process/create-or-update/"
                    connection.request("POST", path, body, headers)
                else:
                    path = f"{API}/pending-account-import-processes/{self._supplier.code}/"
                    connection.request("GET", path, headers=headers)
                answer = connection.getresponse()
                answer.read()
                self.answers[str(answer.status)] += 1
            except (OSError, HTTPException) as error:
                self.answers[repr(error)] += 1
                connection.close()
            if not keeps:
                connection.close()
        connection.close()


@contextmanager
def balancer(folder: Path, ports: tuple[int, int]) -> "Iterator[tuple[int, Path]]":
    """HAProxy as the project configures it, with these addresses. Yield its port and its socket."""
    port, control = random_free_port(), folder / "admin.sock"
    text = (ROOT / "deployment/haproxy/haproxy.cfg").read_text()
    for before, after in (
        (":443 ssl crt /etc/haproxy/migration-service.pem", f"{LOOPBACK}:{port}"),
        ("/run/haproxy/admin.sock", str(control)),
        ("10.0.0.11:8000", f"{LOOPBACK}:{ports[0]}"),
        ("10.0.0.12:8000", f"{LOOPBACK}:{ports[1]}"),
    ):
        assert before in text
        text = text.replace(before, after)
    (folder / "haproxy.cfg").write_text(text)
    with running(str(HAPROXY), "-db", "-f", str(folder / "haproxy.cfg")):
        yield port, control


def serving(control: Path) -> list[str]:
    """Return the names of the servers to which HAProxy sends requests."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(control))
        connection.sendall(b"show stat\n")
        text = b"".join(iter(lambda: connection.recv(65_536), b"")).decode()
    return re.findall(r"^web,(one|two),.*,UP,", text, re.MULTILINE)


@needs_nginx
@pytest.mark.skipif(HAPROXY is None, reason="HAProxy is not installed: apt-get install haproxy")
def test_a_rolling_restart_behind_the_documented_balancer_fails_no_request(
    migrated: Settings, supplier: SupplierClient, tmp_path: Path
) -> None:
    folder = temporary_folder()  # nginx has a user of its own
    sockets = folder / "one.sock", folder / "two.sock"
    leaving = {"MIGRATION_SERVICE_LEAVE_SECONDS": str(migrated.leave_seconds)}
    with ExitStack() as stack:
        servers = [
            stack.enter_context(web_server(migrated, socket, leaving, processes=1)) for socket in sockets
        ]
        one, two = (stack.enter_context(nginx(socket)) for socket in sockets)
        entry, control = stack.enter_context(balancer(tmp_path, (one, two)))
        wait_until(control.exists, "HAProxy")
        with Clients(entry, supplier) as clients:
            for server, socket in zip(servers, sockets, strict=True):
                wait_until(lambda: len(serving(control)) == 2, "both servers are in the balancer")
                clients.wait_for(50)
                server.terminate()
                server.wait(60)
                clients.wait_for(50)
                stack.enter_context(web_server(migrated, socket, processes=1))
            wait_until(lambda: len(serving(control)) == 2, "both servers are in the balancer")
            clients.wait_for(50)
    shutil.rmtree(folder)
    assert set(clients.answers) == {"200", "201"}, clients.answers


@needs_nginx
def test_new_code_is_loaded_behind_the_documented_proxy_and_fails_no_request(
    migrated: Settings, supplier: SupplierClient
) -> None:
    with proxied_web_server(migrated) as (port, server), Clients(port, supplier) as clients:
        old = psutil.Process(server.pid).children()
        server.send_signal(signal.SIGHUP)
        # A process that did not take its signal would be killed after that time, often with no request.
        wait_until(
            lambda: not any(process.is_running() for process in old), "new processes", GRACEFUL_SECONDS
        )
        clients.wait_for(50)
    assert set(clients.answers) == {"200", "201"}, clients.answers


COUNT = 'migration_http_request_duration_seconds_count{method="GET",route="/health/live",status="200"} '


def count_requests(url: str) -> float:
    """Return how often /health/live was requested, according to /metrics."""
    text = requests.get(f"{url}/metrics", timeout=10).text
    return sum(float(line.removeprefix(COUNT)) for line in text.splitlines() if line.startswith(COUNT))


def test_metrics_count_all_processes_including_dead_ones(migrated: Settings, tmp_path: Path) -> None:
    port = random_free_port()
    with web_server(migrated, port, {"TMPDIR": str(tmp_path)}) as server:
        master, url = psutil.Process(server.pid), f"http://{LOOPBACK}:{port}"
        for _ in range(40):
            # Each request has its own connection, so that both processes get some.
            assert is_answered(port)
        # A request is counted a moment after the client has its last byte.
        wait_until(lambda: count_requests(url) >= 41, "the count")
        counted = count_requests(url)
        victim = master.children()[0]
        victim.send_signal(signal.SIGKILL)
        wait_until(lambda: victim.pid not in {child.pid for child in master.children()}, "its end")
        wait_until(lambda: is_answered(port), "another process")
        wait_until(lambda: count_requests(url) > counted, "the count of the answer of the other process")
    assert not list(tmp_path.glob("migration-service-metrics-*")), "files were left behind"
