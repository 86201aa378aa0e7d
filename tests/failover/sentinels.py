"""Three Valkey servers, one of which is the master, and a Sentinel beside each."""

import time
from pathlib import Path
from typing import Any

import redis

from failover.cluster import SECRET
from failover.namespaces import Host, Network
from migration_service_local.servers.account import ServerAccount
from migration_service_local.servers.binaries import find_valkey
from support.servers import wait_until

#: What the Sentinels call the master.
MASTER = "main"
PORT = 26379
#: Milliseconds without an answer, after which a Sentinel takes the master for dead.
_DOWN_AFTER = 2_000


class Sentinels:
    """The servers of the slots, the notifications and the queues."""

    def __init__(self, network: Network) -> None:
        binary = find_valkey(ServerAccount.choose(), network.folder / "runtime")
        self.hosts = [network.add(f"redis{number}") for number in (1, 2, 3)]
        first = self.hosts[0]
        for host in self.hosts:
            server = (
                f"bind {host.address}\nrequirepass {SECRET}\nmasterauth {SECRET}\nappendonly yes\nsave ''\n"
            )
            if host is not first:
                server += f"replicaof {first.address} 6379\n"
            sentinel = (
                f"bind {host.address}\nport {PORT}\nsentinel monitor {MASTER} {first.address} 6379 2\n"
                f"sentinel auth-pass {MASTER} {SECRET}\n"
                f"sentinel down-after-milliseconds {MASTER} {_DOWN_AFTER}\n"
                f"sentinel failover-timeout {MASTER} 10000\n"
            )
            for name, lines, options in (("valkey", server, ()), ("sentinel", sentinel, ("--sentinel",))):
                folder = host.folder / name
                folder.mkdir()
                (folder / "valkey.conf").write_text(f"dir {folder}\n{lines}".replace("''", '""'))
                host.run(str(binary), str(folder / "valkey.conf"), *options)
        self._binary = binary
        wait_until(self.is_whole, "three servers of Valkey with their Sentinels")

    @property
    def url(self) -> str:
        """Return the address for the service."""
        one, two, three = (f"{host.address}:{PORT}" for host in self.hosts)
        return f"sentinel://:{SECRET}@{one}/0?master_name={MASTER};sentinel://{two};sentinel://{three}"

    def master(self) -> Host:
        """Return the host of the master, as most Sentinels see it."""
        found: list[str] = []
        for host in self.hosts:
            try:
                address, _ = self._ask(host, "SENTINEL GET-MASTER-ADDR-BY-NAME")
                found.append(address)
            except redis.RedisError:
                continue
        address = max(set(found), key=found.count)
        return next(host for host in self.hosts if host.address == address)

    def connect(self) -> redis.Redis:
        """Return a client that follows the master."""
        addresses = [(host.address, PORT) for host in self.hosts]
        sentinel = redis.Sentinel(addresses, socket_timeout=1)  # type: ignore[no-untyped-call]
        client: redis.Redis = sentinel.master_for(  # type: ignore[no-untyped-call]
            MASTER, password=SECRET, socket_timeout=2
        )
        return client

    def is_whole(self) -> bool:
        """Return True if both replicas are connected, and every Sentinel knows the others."""
        try:
            for host in self.hosts:
                state = self._ask(host, "SENTINEL MASTER")
                if (state["num-slaves"], state["num-other-sentinels"]) != (2, 2):
                    return False
            return int(self.connect().info("replication")["connected_slaves"]) == 2
        except redis.RedisError:
            return False

    def kill_master(self) -> Host:
        """Kill the server of the master. Its Sentinel goes on."""
        host = self.master()
        for process in host.processes():
            if "[sentinel]" not in "".join(process.cmdline()):
                process.kill()
        return host

    def restart(self, host: Host) -> None:
        """Start a server again, as a replica: what it had alone is dropped."""
        configuration = Path(host.folder / "valkey" / "valkey.conf")
        lines = [line for line in configuration.read_text().splitlines() if "replicaof" not in line]
        master = self.master()
        configuration.write_text("\n".join([*lines, f"replicaof {master.address} 6379", ""]))
        host.run(str(self._binary), str(configuration))
        time.sleep(0.5)
        wait_until(self.is_whole, "all servers of Valkey")

    def _ask(self, host: Host, command: str) -> Any:
        with redis.Redis(host.address, PORT, socket_timeout=1, decode_responses=True) as client:
            return client.execute_command(command, MASTER)
