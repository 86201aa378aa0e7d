"""HAProxy as the project configures it in front of several cells."""

import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from migration_service_local.servers.ports import LOOPBACK, random_free_port
from support.servers import ending_with_us, wait_until
from support.web_servers import HAPROXY, ROOT, is_answered

#: The backends of the configuration, in order.
NAMES = ("one", "two", "three")


class CellBalancer:
    """A running HAProxy. `port` is where clients send their requests to."""

    def __init__(self, folder: Path, ports: Sequence[int]) -> None:
        self.port = random_free_port()
        self._folder = folder
        self._map = folder / "cells.map"
        text = (ROOT / "deployment/haproxy/cells.cfg").read_text()
        for before, after in (
            ("/etc/haproxy/cells.map", str(self._map)),
            (":443 ssl crt /etc/haproxy/migration-service.pem", f"{LOOPBACK}:{self.port}"),
            ("/run/haproxy/admin.sock", str(folder / "admin.sock")),
            *((f"10.0.{n}.11:8443", f"{LOOPBACK}:{port}") for n, port in enumerate(ports, 1)),
            (" ssl verify required ca-file /etc/haproxy/cells.pem", ""),
        ):
            assert before in text
            text = text.replace(before, after)
        (folder / "haproxy.cfg").write_text(text)
        self._process: subprocess.Popen[bytes] | None = None

    def route(self, lines: str) -> None:
        """Use this map, as `organisations map` prints it, from now on."""
        self._map.write_text(lines)
        self.stop()
        # HAProxy is found to be well before its clients are: the first check of a server takes two seconds.
        self._process = subprocess.Popen(
            ending_with_us(str(HAPROXY), "-db", "-f", str(self._folder / "haproxy.cfg"))
        )
        wait_until(lambda: is_answered(self.port), "HAProxy and the first cell")

    def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait(10)


@contextmanager
def cell_balancer(folder: Path, ports: Sequence[int]) -> Iterator[CellBalancer]:
    """Yield an HAProxy in front of cells with web servers on these ports. `route` starts it."""
    balancer = CellBalancer(folder, ports)
    try:
        yield balancer
    finally:
        balancer.stop()
