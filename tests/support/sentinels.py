"""Two Valkeys, of which one replicates the other, and a Sentinel that makes it the master if that is lost."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from redis import Redis, RedisError

from migration_service_local.servers.ports import LOOPBACK, random_free_port
from support.servers import EmbeddedServers, ending_with_us, wait_until

_PASSWORD = "of-both-valkeys"


class Sentinel:
    """A running Sentinel and its two servers."""

    def __init__(self, binary: Path, folder: Path) -> None:
        self._binary, self._folder = binary, folder
        self._programs: dict[int, subprocess.Popen[bytes]] = {}

    def start(self) -> None:
        """Start everything, and wait until it is ready for a failover."""
        self.master, self.replica, self.port = (random_free_port() for _ in range(3))
        own = f"requirepass {_PASSWORD}\nmasterauth {_PASSWORD}\n"
        self._start(self.master, own)
        self._start(self.replica, f"{own}replicaof {LOOPBACK} {self.master}\n")
        with self._connect(self.replica) as replica:
            wait_until(lambda: replica.info("replication").get("master_link_status") == "up", "it follows")
        monitor = (
            f"sentinel monitor main {LOOPBACK} {self.master} 1\nsentinel auth-pass main {_PASSWORD}\n"
            "sentinel down-after-milliseconds main 500\nsentinel failover-timeout main 2000\n"
        )
        self._start(self.port, monitor, "--sentinel")
        with Redis(LOOPBACK, self.port) as sentinel:
            wait_until(lambda: len(sentinel.sentinel_slaves("main")) == 1, "the Sentinel knows both")

    @property
    def url(self) -> str:
        """The address of the master, whichever it is. Nobody listens at the first Sentinel."""
        return f"sentinel://:{_PASSWORD}@{LOOPBACK}:1/0?master_name=main;sentinel://{LOOPBACK}:{self.port}"

    def lose_master(self) -> None:
        """Kill the master."""
        self._programs[self.master].kill()

    def has_failed_over(self) -> bool:
        """Return whether the replica has become the master."""
        with self._connect(self.replica) as replica:
            return bool(replica.info("replication")["role"] == "master")

    def stop(self) -> None:
        """Kill everything."""
        for program in self._programs.values():
            program.kill()
            program.wait()

    def _connect(self, port: int) -> Redis:
        return Redis(LOOPBACK, port, password=_PASSWORD)

    def _start(self, port: int, configuration: str, *options: str) -> None:
        file = self._folder / f"{port}.conf"
        file.write_text(f"port {port}\nbind {LOOPBACK}\nsave ''\ndir {self._folder}\n{configuration}")
        program = ending_with_us(str(self._binary), str(file), *options)
        self._programs[port] = subprocess.Popen(program, stdout=subprocess.DEVNULL)
        with Redis(LOOPBACK, port, password=None if options else _PASSWORD) as started:
            wait_until(lambda: _answers(started), f"port {port} answers")


def _answers(redis: Redis) -> bool:
    try:
        return bool(redis.ping())
    except RedisError:
        return False


@contextmanager
def sentinel_of(servers: EmbeddedServers, folder: Path) -> Iterator[Sentinel]:
    """Run a Sentinel with the programs of these servers, in a folder of its own."""
    sentinel = Sentinel(Path(servers.valkey.program().arguments[0]), folder)
    try:
        sentinel.start()
        yield sentinel
    finally:
        sentinel.stop()
