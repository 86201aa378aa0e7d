"""Load from the suppliers' Python client, as wrk gives it:

    python supplier_client.py threads|asyncio stage|status|process SECONDS FIRST:COUNT BODIES

32 threads, or as many tasks, take one external account number after the other: COUNT of them from FIRST on,
each once to process, and again and again otherwise. BODIES is the file that wrk reads.
"""

import asyncio
import json
import os
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from typing import Any

from printing import print_result

from migration_service_client import AsyncClient, Client

_AT_ONCE = 32
_NUMBER = b"@NUMBER@"


def _requests(what: str, first: int, total: int, bodies: list[bytes]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the method of the client for each request, with its arguments."""
    parts = [body.split(_NUMBER) for body in bodies]
    named = json.loads(bodies[0]) if what == "process" else {}
    for each in range(total) if what == "process" else count():
        number = f"{first + each % total:08d}"
        if what == "stage":
            head, tail = parts[each % len(parts)]
            yield "stage_account", {"account": b"".join((head, number.encode(), tail))}
        elif what == "process":
            yield "process_account", named | {"external_account_number": number}
        else:
            yield "get_account_status", {"import_supplier_code": "BENCH", "external_account_number": number}


class _Load:
    """Takes requests until the time is up, from all threads, and keeps how long they took."""

    def __init__(self, requests: Iterator[tuple[str, dict[str, Any]]], seconds: float) -> None:
        self._requests, self._lock = requests, threading.Lock()
        self._until = time.perf_counter() + seconds
        self.times: list[float] = []

    def next(self) -> tuple[str, dict[str, Any]] | None:
        with self._lock:
            return next(self._requests, None) if time.perf_counter() < self._until else None

    def threads(self, client: Client) -> None:
        def work(_worker: int) -> None:
            while (request := self.next()) is not None:
                start = time.perf_counter()
                getattr(client, request[0])(**request[1])
                self.times.append(time.perf_counter() - start)

        with ThreadPoolExecutor(_AT_ONCE) as pool:
            list(pool.map(work, range(_AT_ONCE)))

    async def asyncio(self, client: AsyncClient) -> None:
        async def work() -> None:
            while (request := self.next()) is not None:
                start = time.perf_counter()
                await getattr(client, request[0])(**request[1])
                self.times.append(time.perf_counter() - start)

        await asyncio.gather(*(work() for _ in range(_AT_ONCE)))


async def _with_asyncio(address: str, key: str, load: _Load) -> None:
    async with AsyncClient(address, key) as client:
        await load.asyncio(client)


def main(kind: str, what: str, seconds: str, numbers: str, bodies: str) -> None:
    address, key = os.environ["SERVICE_URL"], os.environ["API_KEY"]
    lines = Path(bodies).read_bytes().splitlines()
    first, _, total = numbers.partition(":")
    load = _Load(_requests(what, int(first), int(total), lines), float(seconds))
    started, used = time.perf_counter(), time.process_time()
    if kind == "asyncio":
        asyncio.run(_with_asyncio(address, key, load))
    else:
        with Client(address, key) as client:
            load.threads(client)
    print_result(load.times, time.perf_counter() - started, client=time.process_time() - used)


if __name__ == "__main__":
    main(*sys.argv[1:])
