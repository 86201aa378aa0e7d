"""The list of a million imports, and what the web processes' memory does meanwhile."""

import http.client
import threading
import time
from statistics import median

from benchmarks.bench import Bench, Row
from benchmarks.payloads import SUPPLIER

_MEGABYTE = 1 << 20


def measure_list(bench: Bench) -> list[Row]:
    """Rows a second of the whole list, and the growth of the largest web process, in megabytes."""
    rates, growths = [], []
    for _ in range(max(2, bench.extent.rounds // 2)):
        before = _memory(bench)
        highest = before
        over = threading.Event()

        def watch(over: threading.Event = over) -> None:
            nonlocal highest
            while not over.wait(0.05):
                highest = max(highest, _memory(bench))

        watcher = threading.Thread(target=watch)
        watcher.start()
        started = time.perf_counter()
        rows = _read_list(bench)
        rates.append(rows / (time.perf_counter() - started))
        over.set()
        watcher.join()
        growths.append(highest - before)
    return [
        Row(
            f"listing {rows:,} imports",
            median(rates),
            "rows/s",
            "at least 200,000",
            median(rates) >= 200_000,
            more={"ours": rates},
        ),
        Row(
            "growth of the web process meanwhile",
            max(growths),
            "MB",
            "less than 50",
            max(growths) < 50,
            more={"ours": growths},
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
    """The largest web process, in megabytes."""
    return max(process.memory_info().rss for process in bench.stack.processes("web")) / _MEGABYTE
