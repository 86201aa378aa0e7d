"""The service: two web hosts behind HAProxy, and three hosts of workers."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path

import requests

from failover.namespaces import Host, Network
from migration_service.tasks.names import QUEUES
from support.servers import wait_until
from support.web_servers import ROOT

#: The share of a web host's process, and of a worker host's: the drill has many hosts and few processors.
_WEB = ("--processes", "1", "--threads", "64")
_WORKER_PROCESSES = "2"
_FAKETIME = sorted(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"))

_HAPROXY = """
global
    maxconn 4000
defaults
    mode http
    timeout connect 2s
    timeout check 2s
    timeout http-request 20s
    timeout client 60s
    timeout server 120s
listen web
    bind {address}:80
    balance leastconn
    option httpchk GET /health/ready
    option redispatch 1
    retry-on conn-failure
    option allbackups
    default-server inter 2s fastinter 1s fall 2 rise 2
{web}
"""


class ServiceHosts:
    """The hosts of the service. `environment` has its settings.

    Those in `clocks` are so many minutes ahead.
    """

    def __init__(self, network: Network, environment: Mapping[str, str]) -> None:
        self.balancer = network.add("balancer")
        self.web = [network.add(f"web{number}") for number in (1, 2)]
        self.workers = [network.add(f"worker{number}") for number in (1, 2, 3)]
        self.clocks: dict[str, int] = {}
        self._environment = environment

    @property
    def url(self) -> str:
        """Return the address for clients."""
        return f"http://{self.balancer.address}"

    def start(self) -> None:
        """Start everything, and wait until both web hosts can be used."""
        self._start_balancer()
        for host in (*self.web, *self.workers):
            self.start_on(host)
        wait_until(lambda: all(map(self.is_ready, self.web)), "both web hosts", 120)

    def _start_balancer(self) -> None:
        """Balance requests between the web hosts."""
        # If no host is ready, requests still reach one: it holds them until the database is back.
        web = [
            f"    server {it.name}{name} {it.address}:8000 {options}"
            for name, options in (("", "check"), ("-anyway", "backup"))
            for it in self.web
        ]
        file = self.balancer.folder / "haproxy.cfg"
        text = _HAPROXY.format(address=self.balancer.address, web="\n".join(web))
        file.write_text(text)
        self.balancer.run("/usr/sbin/haproxy", "-db", "-f", str(file))

    def start_on(self, host: Host) -> None:
        """Start what runs on this host: a web server, or a worker, with beat on the first one."""
        if host in self.web:
            self._python(host, "migration_service.web_server", "--bind", f"{host.address}:8000", *_WEB)
            return
        celery = ("celery", "--quiet", "-A")
        queues = ",".join(QUEUES)
        options = ("--loglevel", "INFO", "--without-gossip", "--without-mingle", "-c", _WORKER_PROCESSES)
        self._python(
            host, *celery, "celery_worker", "worker", *options, "-Q", queues, "-n", f"all@{host.name}"
        )
        if host is self.workers[0]:
            self._python(host, *celery, "celery_monitor", "beat", "--loglevel", "INFO")

    def is_ready(self, host: Host) -> bool:
        """Return True if this web host can be used."""
        try:
            return requests.get(f"http://{host.address}:8000/health/ready", timeout=5).ok
        except requests.RequestException:
            return False

    def _python(self, host: Host, *module: str) -> None:
        scratch = host.folder / module[0].rpartition(".")[2]
        scratch.mkdir(exist_ok=True)
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(scratch),
            "PYTHONPATH": f"{ROOT}:{ROOT / 'src'}",
            "PYTHONUNBUFFERED": "1",
            "PYTHONWARNINGS": "ignore:You're running the worker with superuser privileges",
            "MALLOC_ARENA_MAX": "2",
            "MIGRATION_SERVICE_HOME": str(scratch),
            "MIGRATION_SERVICE_LOG_FORMAT": "json",
            **self._environment,
        }
        if ahead := self.clocks.get(host.name):
            # Only the time of day: the processes' own timers go on as they are.
            environment |= {
                "LD_PRELOAD": str(_FAKETIME[0]),
                "FAKETIME": f"+{ahead}m",
                "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            }
        host.run(sys.executable, "-m", *module, environment=environment, folder=scratch)
