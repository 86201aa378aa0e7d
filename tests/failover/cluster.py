"""Three PostgreSQL servers under Patroni, which agree through three etcd servers."""

import json
import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import psycopg
import requests
from psycopg import sql

from failover.namespaces import Host, Network
from migration_service_local.servers.account import ServerAccount
from migration_service_local.servers.binaries import find_postgres
from migration_service_local.servers.postgres import DATABASE, OWNER
from support.servers import wait_until

#: The settings of Patroni that the figures are measured with, in seconds.
TIMES = {"ttl": 20, "loop_wait": 5, "retry_timeout": 5, "primary_start_timeout": 0}
#: Megabytes of the disks, which `fill` fills.
_POSTGRES_DISK, _ETCD_DISK = 1_500, 200
#: The password of everybody, on hosts that nobody else reaches.
SECRET = "drill"
_API = 8008
_PARAMETERS = {
    "max_connections": 200,
    "max_wal_size": "256MB",
    "wal_log_hints": "on",
    "hot_standby": "on",
    # A host that is gone is noticed, although its connection is never closed.
    "wal_sender_timeout": "5s",
    "wal_receiver_timeout": "5s",
    "tcp_user_timeout": "5s",
    "unix_socket_directories": "",
    "scram_iterations": 1,
}


class Cluster:
    """The servers of the database. `synchronous` as Patroni understands it: commits wait for one standby."""

    def __init__(self, network: Network, python: Path, *, synchronous: bool) -> None:
        self._account = ServerAccount.choose()
        self._python = python
        self.etcd = [network.add(f"etcd{number}") for number in (1, 2, 3)]
        self.members = {name: network.add(name) for name in ("pg1", "pg2", "pg3")}
        self._binaries = find_postgres(self._account, network.folder / "runtime").parent
        self._disks: dict[str, Path] = {}
        for host in self.etcd:
            self._disks[host.name] = host.disk("disk", _ETCD_DISK)
            self._start_etcd(host)
        for host in self.members.values():
            self._configure(host, synchronous)
            self.start(host)
        wait_until(self.is_whole, "three servers of PostgreSQL", 120)

    def url(self, role: str = DATABASE, database: str = DATABASE) -> str:
        """Return the address for the service: all servers, of which the driver takes the one that writes."""
        hosts = ",".join(f"{host.address}:5432" for host in self.members.values())
        options = "target_session_attrs=read-write"
        return f"postgresql://{role}:{SECRET}@{hosts}/{database}?{options}"

    def make_database(self) -> None:
        with psycopg.connect(self.url("postgres", "postgres"), autocommit=True) as connection:
            for role in (DATABASE, OWNER):
                create = sql.SQL("CREATE ROLE {} LOGIN PASSWORD {}")
                connection.execute(create.format(sql.Identifier(role), sql.Literal(SECRET)))
            create = sql.SQL("CREATE DATABASE {} OWNER {}")
            connection.execute(create.format(sql.Identifier(DATABASE), sql.Identifier(OWNER)))

    def states(self) -> list[dict[str, Any]]:
        """Return what the first member that answers knows of all: name, role, state, lag."""
        for host in self.members.values():
            with suppress(requests.RequestException, KeyError, ValueError):
                found: list[dict[str, Any]] = self._ask(host, "GET", "cluster").json()["members"]
                return found
        return []

    def is_whole(self) -> bool:
        """Return True if there is a leader, two standbys stream from it, and one is synchronous if wanted."""
        states = self.states()
        leaders = [it for it in states if it["role"] == "leader" and it["state"] == "running"]
        streaming = [it for it in states if it["role"] != "leader" and it["state"] == "streaming"]
        return (len(leaders), len(streaming)) == (1, 2)

    def wait_until_whole(self) -> None:
        """Wait for all members. One that cannot follow is made anew from the leader half way."""
        begun = time.monotonic()

        def whole() -> bool:
            if time.monotonic() > begun + 60:
                for state in self.states():
                    if state["role"] != "leader" and state["state"] not in ("streaming", "creating replica"):
                        with suppress(requests.RequestException):
                            host = self.members[state["name"]]
                            self._ask(host, "POST", "reinitialize", {"force": True})
            return self.is_whole()

        wait_until(whole, f"three servers of PostgreSQL: {self.states()}", 120)

    def leader(self) -> Host:
        """Return the host of the primary."""
        names = [it["name"] for it in self.states() if it["role"] == "leader"]
        return self.members[names[0]]

    def others(self, host: Host) -> list[Host]:
        """Return every host of the cluster but this one: what a primary has to reach to stay one."""
        return [*(it for it in self.members.values() if it is not host), *self.etcd]

    def candidate(self) -> Host:
        """Return the standby that may become the primary: the synchronous one, if there is one."""
        states = [it for it in self.states() if it["role"] != "leader"]
        best = min(states, key=lambda it: it["role"] != "sync_standby")
        return self.members[best["name"]]

    def switch_over(self) -> None:
        """Move the primary to another server, on request. Return when Patroni has done it."""
        leader, candidate = self.leader(), self.candidate()
        wanted = {"leader": leader.name, "candidate": candidate.name}
        answer = requests.post(f"http://{leader.address}:{_API}/switchover", json=wanted, timeout=60)
        answer.raise_for_status()

    def postmaster(self, host: Host) -> psutil.Process:
        """Return the main process of PostgreSQL on this host."""
        pid = (self._disks[host.name] / "data" / "postmaster.pid").read_text().split()[0]
        return psutil.Process(int(pid))

    def fill(self, host: Host) -> Callable[[], None]:
        """Fill the disk of a server of PostgreSQL or etcd. Return what frees it."""
        filler = self._disks[host.name] / "filler"
        with filler.open("wb") as file, suppress(OSError):
            block = bytes(1_000_000)
            while True:
                file.write(block)
                file.flush()
        return filler.unlink

    def _ask(self, host: Host, method: str, path: str, body: Any = None) -> requests.Response:
        return requests.request(method, f"http://{host.address}:{_API}/{path}", json=body, timeout=1)

    def restart_ended(self) -> None:
        """Start etcd again wherever it ended, as a supervisor does. Patroni does it for PostgreSQL."""
        for host in self.etcd:
            if not host.processes():
                self._start_etcd(host)

    def _start_etcd(self, host: Host) -> None:
        clients, own = f"http://{host.address}:2379", f"http://{host.address}:2380"
        host.run(
            *("etcd", "--name", host.name, "--data-dir", str(self._disks[host.name] / "data")),
            *("--listen-client-urls", clients, "--advertise-client-urls", clients),
            *("--listen-peer-urls", own, "--initial-advertise-peer-urls", own),
            *("--initial-cluster", ",".join(f"{it.name}=http://{it.address}:2380" for it in self.etcd)),
            # The processors of the drill are busy.
            *("--logger", "zap", "--heartbeat-interval", "200", "--election-timeout", "2000"),
        )

    def start(self, host: Host) -> None:
        """Start Patroni, which starts PostgreSQL."""
        host.run(
            *(str(self._python), "-m", "patroni", str(host.folder / "patroni.yml")),
            environment={"PATH": os.defpath, "LC_ALL": "C", "TZ": "UTC", "PYTHONUNBUFFERED": "1"},
            account=self._account,
            folder=self._disks[host.name],
        )

    def _configure(self, host: Host, synchronous: bool) -> None:
        disk = self._disks[host.name] = host.disk("disk", _POSTGRES_DISK, self._account)
        network = f"{host.address.rpartition('.')[0]}.0/24"
        users = {"superuser": "postgres", "replication": "replicator", "rewind": "rewinder"}
        configuration = {
            "scope": "drill",
            "name": host.name,
            "restapi": {"listen": f"{host.address}:{_API}", "connect_address": f"{host.address}:{_API}"},
            "etcd3": {"hosts": [f"{it.address}:2379" for it in self.etcd]},
            "bootstrap": {
                "dcs": TIMES
                | {
                    "synchronous_mode": synchronous,
                    "postgresql": {"use_pg_rewind": True, "parameters": _PARAMETERS},
                },
                "initdb": [
                    {"encoding": "UTF8"},
                    {"locale-provider": "builtin"},
                    {"builtin-locale": "C.UTF-8"},
                    {"locale": "C"},
                    "data-checksums",
                ],
            },
            "postgresql": {
                "listen": f"{host.address}:5432",
                "connect_address": f"{host.address}:5432",
                "data_dir": str(disk / "data"),
                "bin_dir": str(self._binaries),
                "pgpass": str(disk / "pgpass"),
                "remove_data_directory_on_diverged_timelines": True,
                "authentication": {
                    kind: {"username": name, "password": SECRET} for kind, name in users.items()
                },
                "pg_hba": [
                    f"host all all {network} scram-sha-256",
                    f"host replication replicator {network} scram-sha-256",
                ],
            },
        }
        (host.folder / "patroni.yml").write_text(json.dumps(configuration, indent=1))
