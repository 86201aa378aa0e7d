"""How fast the feed of events and the list of a million imports are read, and the memory of processes.

What events cost an account is measured with `--compare`, beside a checkout without them.
"""

import http.client
import json
import re
import time
from pathlib import Path

import psutil

from benchmarks.bench import Bench, Reading, Row, row_of_rates
from benchmarks.payloads import SUPPLIER

_MEGABYTE = 1 << 20
#: Events in the feed that is read, each of one account.
_FILLED = 200_000

# With numbers of transactions that have ended.
_FILL = """
    INSERT INTO event (organisation_id, transaction_id, import_supplier_id, type, data)
    SELECT organisation_id, transaction_id, id, 'account.created', jsonb_build_object(
        'external_account_number', number::text, 'service_account_number', 'A-7KX2M9QD',
        'attempt_id', gen_random_uuid())
    FROM import_supplier,
         (SELECT n AS number, 3 + n / 1000 AS transaction_id FROM generate_series(1, %s) AS n) AS told
"""


def measure_feed(bench: Bench) -> Row:
    """Measure events per second of the whole feed as NDJSON."""
    with bench.stack.connect() as connection:
        connection.execute(_FILL, [_FILLED])
        connection.execute("ANALYZE event")
    readings = [read_feed(bench)[0] for _ in range(bench.extent.rounds)]
    return row_of_rates(f"reading {readings[-1].count:,} events", "events/s", readings, 50_000)


def read_feed(bench: Bench, cursor: str = "start") -> tuple[Reading, str]:
    """Read the events after a cursor. Return the cursor of the last one, too."""
    reading, tail = _read(bench, f"/events/?cursor={cursor}", "application/x-ndjson", b"\n")
    return reading, json.loads(tail.splitlines()[-1])["cursor"] if reading.count else cursor


def measure_list(bench: Bench) -> list[Row]:
    """Measure rows per second of the whole list, and the growth of the largest web process in megabytes."""
    readings, growths = [], []
    path = f"/all-account-import-processes/{SUPPLIER}/"
    for _ in range(max(2, bench.extent.rounds // 2)):
        web = bench.stack.processes("web")
        before = max(map(_memory, web))
        for process in web:
            Path(f"/proc/{process.pid}/clear_refs").write_text("5")  # forget the peak
        readings.append(_read(bench, path, "application/json", b"{")[0])
        growths.append(max(map(_peak, web)) - before)
    return [
        row_of_rates(f"listing {readings[-1].count:,} imports", "rows/s", readings, 200_000),
        _row_of_memory("growth of the web process meanwhile", growths, "less than", 50),
    ]


def measure_memory(bench: Bench) -> list[Row]:
    """Measure the largest web process and the largest worker process in megabytes."""
    rows = []
    for name, program, most in (("web", "web", 125), ("worker", "interactive", 105)):
        sizes = [_memory(process) for process in bench.stack.processes(program)]
        rows.append(_row_of_memory(f"memory of an idle {name} process", sizes, "under", most))
    return rows


def _row_of_memory(what: str, sizes: list[float], word: str, most: int) -> Row:
    return Row(what, max(sizes), "MB", f"{word} {most}", max(sizes) < most, more={"sizes": sizes})


def _memory(process: psutil.Process) -> float:
    return float(process.memory_info().rss / _MEGABYTE)


def _peak(process: psutil.Process) -> float:
    status = Path(f"/proc/{process.pid}/status").read_text()
    return int(re.findall(r"^VmHWM:\s+(\d+) kB$", status, re.MULTILINE)[0]) / 1024


def _read(bench: Bench, path: str, accept: str, counted: bytes) -> tuple[Reading, bytes]:
    """Read an answer of the interface to its end. Count what it has of something, and return its end."""
    started = time.perf_counter()
    connection = http.client.HTTPConnection("127.0.0.1", bench.stack.web_port, timeout=120)
    headers = {"Authorization": f"Token {bench.token}", "Accept": accept}
    connection.request("GET", f"/v1/data-import{path}", headers=headers)
    response = connection.getresponse()
    assert response.status == 200, response.read(500)
    count, tail = 0, b""
    while piece := response.read1(_MEGABYTE):
        count += piece.count(counted)
        tail = (tail + piece)[-_MEGABYTE:]
    connection.close()
    return Reading(count, count / (time.perf_counter() - started)), tail
