"""Hosts: network namespaces on one bridge, each with an address, processes and a cable that can be pulled.

All of it is in a PID, a mount and a network namespace of the drill's own. However the drill ends, the kernel
then ends every process that it started, and removes hosts and disks.
"""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import psutil

from drill.faults import signal_all
from migration_service_local.servers import launch
from migration_service_local.servers.account import ServerAccount

#: For benchmarks between networks (RFC 2544), so that no real network has these addresses.
_NETWORK = "198.18.31"
_BRIDGE = "switch"
NAMES = Path("/run/netns")


def inside(*module: str) -> list[str]:
    """Return the command that runs a module of ours in new namespaces, and ends all in them when we end."""
    own = ("--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")
    ties = (str(os.getpid()), str(int(signal.SIGKILL)), "-1", "-1")
    unshare = shutil.which("unshare") or "unshare"
    return [sys.executable, "-I", "-S", launch.__file__, *ties, unshare, *own, sys.executable, "-m", *module]


def take_care_of_orphans() -> None:
    """Go on in a child, while this process (PID 1) waits for all that lost their parents, and for its end."""
    child = os.fork()
    if not child:
        return
    signal.signal(signal.SIGINT, lambda *_: None)  # Ctrl-C reaches the child itself
    while True:
        ended, status = os.wait()
        if ended == child:
            os._exit(os.waitstatus_to_exitcode(status) & 0xFF)


def command(*arguments: str) -> str:
    """Run a short program and return its output. Raise CalledProcessError if it fails."""
    done = subprocess.run(arguments, check=True, capture_output=True, text=True)
    return done.stdout


class Network:
    """The bridge between the hosts. The drill itself has its first address."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._hosts = 0
        (folder / "log").mkdir()
        NAMES.mkdir(parents=True, exist_ok=True)
        command("mount", "-t", "tmpfs", "none", str(NAMES))
        command("ip", "link", "set", "lo", "up")
        command("ip", "link", "add", _BRIDGE, "type", "bridge")
        command("ip", "address", "add", f"{_NETWORK}.1/24", "dev", _BRIDGE)
        command("ip", "link", "set", _BRIDGE, "up")

    def add(self, name: str) -> "Host":
        """Add a host. Its name has at most twelve letters."""
        self._hosts += 1
        return Host(self, name, f"{_NETWORK}.{self._hosts + 10}")


class Host:
    """A host with its processes."""

    def __init__(self, network: Network, name: str, address: str) -> None:
        self.name, self.address = name, address
        self.folder = network.folder / name
        self.log = network.folder / "log" / f"{name}.log"
        self._cable = f"v-{name}"
        self._slow: subprocess.Popen[bytes] | None = None
        command("ip", "netns", "add", name)
        command("ip", "link", "add", self._cable, "type", "veth", "peer", "name", "eth0", "netns", name)
        command("ip", "link", "set", self._cable, "master", _BRIDGE, "up")
        self._ip("address", "add", f"{address}/24", "dev", "eth0")
        for device in ("lo", "eth0"):
            self._ip("link", "set", device, "up")
        # Packets get their checksums from the sender, because `slow` forwards them as they are.
        command("ip", "netns", "exec", name, "ethtool", "-K", "eth0", "tx", "off")
        self.folder.mkdir()
        self.folder.chmod(0o755)

    def run(
        self,
        *arguments: str,
        environment: Mapping[str, str] | None = None,
        account: ServerAccount | None = None,
        folder: Path | None = None,
    ) -> subprocess.Popen[bytes]:
        """Start a program on this host, as another user if it has an `account`."""
        enter_host = ["nsenter", f"--net={NAMES / self.name}"]
        if account and account.switch:
            user = (f"--reuid={account.user}", f"--regid={account.group}", "--clear-groups")
            enter_host += ["setpriv", *user]
        with self.log.open("ab") as log:
            return subprocess.Popen(
                [*enter_host, *arguments],
                cwd=folder or self.folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def disk(self, name: str, megabytes: int, account: ServerAccount | None = None) -> Path:
        """Return a folder that is a disk of this size."""
        folder = self.folder / name
        folder.mkdir()
        command("mount", "-t", "tmpfs", "-o", f"size={megabytes}m,mode=700", "none", str(folder))
        if account:
            account.own(folder, 0o700)
        return folder

    def processes(self) -> list[psutil.Process]:
        """Return all processes on this host."""
        own = (NAMES / self.name).stat().st_ino
        found = []
        for process in psutil.process_iter():
            with suppress(OSError):
                if Path(f"/proc/{process.pid}/ns/net").stat().st_ino == own:
                    found.append(process)
        return found

    def kill(self) -> None:
        """Kill all processes on this host."""
        signal_all(self.processes(), signal.SIGKILL)

    def freeze(self) -> None:
        """Stop all processes and pull the cable: nobody is told anything, as when a host is gone."""
        self.unplug()
        signal_all(self.processes(), signal.SIGSTOP)

    def thaw(self) -> None:
        """Let all processes go on as if no time had passed, and plug the cable in."""
        signal_all(self.processes(), signal.SIGCONT)
        self.plug_in()

    def unplug(self) -> None:
        """Pull the cable. The processes go on."""
        command("ip", "link", "set", self._cable, "down")

    def plug_in(self) -> None:
        """Plug the cable in again."""
        command("ip", "link", "set", self._cable, "up")

    def cut_from(self, others: Iterable["Host"]) -> None:
        """Drop all packets to these hosts. Everybody else is still reached."""
        for other in others:
            self._ip("route", "add", "blackhole", f"{other.address}/32")

    def heal(self) -> None:
        """Reach every host again, at full speed."""
        self._ip("route", "flush", "type", "blackhole")
        if self._slow:
            self._slow.terminate()
            self._slow.wait()
            self._slow = None
            command("ip", "link", "delete", f"s-{self.name}")
            command("ip", "link", "set", self._cable, "master", _BRIDGE)

    def slow(self) -> None:
        """Delay packets by 250 milliseconds in each direction, and lose one of twenty."""
        far, near = f"s-{self.name}", f"t-{self.name}"
        command("ip", "link", "add", far, "type", "veth", "peer", "name", near)
        command("ip", "link", "set", self._cable, "nomaster")
        command("ip", "link", "set", near, "master", _BRIDGE, "up")
        command("ip", "link", "set", far, "up")
        program: Sequence[str] = (sys.executable, "-m", "failover.slow", self._cable, far)
        self._slow = subprocess.Popen([*program, "250", "0.05"])

    def _ip(self, *arguments: str) -> None:
        command("ip", "-n", self.name, *arguments)
