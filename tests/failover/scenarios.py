"""The faults. Each is a generator: up to its `yield` something fails, and after it all is made well again."""

import time
from collections.abc import Callable, Generator
from contextlib import suppress
from dataclasses import dataclass

import psutil
import psycopg

from drill.history import Act
from failover.namespaces import Host
from failover.world import World
from support.servers import wait_until

Fault = Callable[[World], Generator[None]]


@dataclass(frozen=True, slots=True)
class Scenario:
    """A fault, and what is measured."""

    fault: Fault
    #: Seconds for which it lasts at least.
    lasts: float = 0.0
    #: The requests whose answers are timed.
    acts: tuple[Act, ...] = (Act.STAGE, Act.PROCESS)
    #: Whether the time counts from the repair, before which nothing can be written.
    from_repair: bool = False
    #: Whether no request may fail.
    fails_nothing: bool = False
    #: The goal for the median, and for the longest time, in seconds.
    goals: tuple[float, float] | None = None


def _switch_over(world: World) -> Generator[None]:
    world.cluster.switch_over()
    yield


def _kill_primary(world: World) -> Generator[None]:
    world.cluster.postmaster(world.cluster.leader()).kill()
    yield


def _lose_primary(world: World) -> Generator[None]:
    """The host is silent from one moment to the next, and is switched on again later."""
    host = world.cluster.leader()
    host.freeze()
    yield
    host.kill()
    host.plug_in()
    world.cluster.start(host)


def _cut_primary(world: World) -> Generator[None]:
    """Everybody but the service loses the primary, so that two might take themselves for it."""
    host = world.cluster.leader()
    host.cut_from(world.cluster.others(host))
    yield
    host.heal()


def _fill(find: Callable[[World], Host]) -> Fault:
    def fill(world: World) -> Generator[None]:
        free = world.cluster.fill(find(world))
        yield
        free()
        world.cluster.restart_ended()

    return fill


def _pin_xmin(world: World) -> Generator[None]:
    """A transaction that reads keeps every dead row of its time."""
    with psycopg.connect(world.cluster.url("postgres")) as connection:
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        connection.execute("SELECT count(*) FROM account_import_process")
        yield
        connection.execute("SELECT 1")


def _read_only_leader(world: World) -> Generator[None]:
    candidate = world.cluster.candidate()
    address = f"postgresql://postgres:drill@{candidate.address}/postgres"

    def on_candidate(statement: str) -> None:
        with psycopg.connect(address, autocommit=True) as connection:
            connection.execute(statement.encode())
            connection.execute("SELECT pg_reload_conf()")

    on_candidate("ALTER SYSTEM SET default_transaction_read_only = on")
    world.cluster.switch_over()
    yield
    on_candidate("ALTER SYSTEM RESET default_transaction_read_only")


def _kill_sentinel_master(world: World) -> Generator[None]:
    host = world.sentinels.kill_master()
    yield
    world.sentinels.restart(host)


def _host(find: Callable[[World], Host], begin: Callable[[Host], None], end: Callable[[Host], None]) -> Fault:
    """Return what befalls one host alone."""

    def fail(world: World) -> Generator[None]:
        host = find(world)
        begin(host)
        yield
        end(host)

    return fail


def _leader(world: World) -> Host:
    return world.cluster.leader()


def _wrong_clock(world: World) -> Generator[None]:
    """A web host and a worker host whose clocks are ten minutes ahead."""
    hosts = (world.hosts.web[1], world.hosts.workers[1])
    for host in hosts:
        world.hosts.clocks[host.name] = 10
        _replace(world, host)
    yield
    for host in hosts:
        del world.hosts.clocks[host.name]
        _replace(world, host)


def _replace_hosts(world: World) -> Generator[None]:
    """Replace the hosts of the service in turn, as a deployment does."""
    yield
    for host in (*world.hosts.web, *world.hosts.workers):
        _replace(world, host)
        time.sleep(3)


def _replace(world: World, host: Host) -> None:
    """Stop what runs on a host of the service as a deployment does, and start it again."""
    _stop(host)
    world.hosts.start_on(host)
    if host in world.hosts.web:
        wait_until(lambda: world.hosts.is_ready(host), host.name)
        time.sleep(4)  # the balancer has it back


def _stop(host: Host) -> None:
    running = host.processes()
    pids = {process.pid for process in running}
    for process in running:
        with suppress(psutil.NoSuchProcess):
            if process.ppid() not in pids:
                process.terminate()
    psutil.wait_procs(running, timeout=60)
    host.kill()


def _web(world: World) -> Host:
    return world.hosts.web[1]


def _workers(world: World) -> Host:
    return world.hosts.workers[2]


#: Every scenario by its name in the table.
SCENARIOS: dict[str, Scenario] = {
    "switch-over on request": Scenario(_switch_over, fails_nothing=True, goals=(3, 10)),
    "primary: process killed": Scenario(_kill_primary, goals=(25, 40)),
    "primary: host gone": Scenario(_lose_primary, lasts=25, goals=(25, 40)),
    # It goes on as if no time had passed, when another one is the primary.
    "primary: host frozen": Scenario(_host(_leader, Host.freeze, Host.thaw), lasts=25, goals=(25, 40)),
    "primary: cut from its peers": Scenario(_cut_primary, lasts=30, goals=(25, 40)),
    "primary: slow network": Scenario(_host(_leader, Host.slow, Host.heal), lasts=30),
    "primary: disk full": Scenario(_fill(_leader), lasts=15),
    "etcd: a disk full": Scenario(_fill(lambda world: world.cluster.etcd[0]), lasts=15),
    "xmin horizon pinned": Scenario(_pin_xmin, lasts=600),
    "new primary stays read-only": Scenario(_read_only_leader, lasts=15, from_repair=True),
    "Sentinel: master killed": Scenario(_kill_sentinel_master, lasts=10, acts=(Act.PROCESS,), goals=(6, 10)),
    "web host frozen": Scenario(_host(_web, Host.freeze, Host.thaw), lasts=15),
    "web host cut off": Scenario(_host(_web, Host.unplug, Host.plug_in), lasts=15),
    "worker host frozen": Scenario(_host(_workers, Host.freeze, Host.thaw), lasts=20, acts=(Act.PROCESS,)),
    "worker host cut off": Scenario(
        _host(_workers, Host.unplug, Host.plug_in), lasts=20, acts=(Act.PROCESS,)
    ),
    "clocks ten minutes ahead": Scenario(_wrong_clock, lasts=20),
    "hosts replaced in turn": Scenario(_replace_hosts),
}
