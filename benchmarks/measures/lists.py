"""The list of a million imports, and the memory of the web processes meanwhile and when they are idle."""

import http.client
import threading
import time
from statistics import median

from benchmarks.bench import Bench, Row
from benchmarks.payloads import SUPPLIER

_MEGABYTE = 1 << 20


class _Watch(threading.Thread):
    """Watches the memory of the web processes within a `with` statement. `growth` is in megabytes."""

    def __init__(self, bench: Bench) -> None:
        super().__init__()
        self._bench = bench
        self._over = threading.Event()
        self._before = self._highest = _memory(bench)

    def run(self) -> None:
        while not self._over.wait(0.05):
            self._highest = max(self._highest, _memory(self._bench))

    def stop(self) -> float:
        self._over.set()
        self.join()
        return self._highest - self._before


def measure_list(bench: Bench) -> list[Row]:
    """Measure rows per second of the whole list, and the growth of the largest web process in megabytes."""
    rates, growths = [], []
    rows = 0
    for _ in range(max(2, bench.extent.rounds // 2)):
        watch = _Watch(bench)
        watch.start()
        started = time.perf_counter()
        rows = _read_list(bench)
        rates.append(rows / (time.perf_counter() - started))
        growths.append(watch.stop())
    return [
        Row(
            f"listing {rows:,} imports",
            median(rates),
            "rows/s",
            "at least 200,000",
            median(rates) >= 200_000,
            more={"rates": rates},
        ),
        Row(
            "growth of the web process meanwhile",
            max(growths),
            "MB",
            "less than 50",
            max(growths) < 50,
            more={"growths": growths},
        ),
    ]


def _read_list(bench: Bench) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", bench.stack.web_port, timeout=120)
    path = f"/v1/data-import/all-account-import-processes/{SUPPLIER}/"
    connection.request("GET", path, headers={"Authorization": f"Token {bench.token}"})
    response = connection.getresponse()
    assert response.status == 200, response.read(500)
    rows = 0
    while piece := response.read1(_MEGABYTE):
        rows += piece.count(b"{")
    connection.close()
    return rows


def _memory(bench: Bench) -> float:
    """Return the size of the largest web process in megabytes."""
    sizes: list[int] = [process.memory_info().rss for process in bench.stack.processes("web")]
    return max(sizes) / _MEGABYTE


def measure_memory(bench: Bench) -> list[Row]:
    """Measure the largest web process and the largest worker process in megabytes."""
    rows = []
    for name, program, most in (("web", "web", 125), ("worker", "interactive", 105)):
        sizes = [process.memory_info().rss / _MEGABYTE for process in bench.stack.processes(program)]
        rows.append(
            Row(
                f"memory of an idle {name} process",
                max(sizes),
                "MB",
                f"under {most}",
                max(sizes) < most,
                more={"sizes": sizes},
            )
        )
    return rows
