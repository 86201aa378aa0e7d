"""Writes a book as NDJSON on all processors.

A worker process generates a chunk only when it will soon be read, so memory use stays constant even if the
reader is slow.
"""

import gzip
import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass
from datetime import date

from migration_service_local.samples.accounts import open_book
from migration_service_local.samples.books import generate_lines

#: Accounts in a chunk. A gzip file has one member for each chunk.
ACCOUNTS_A_CHUNK = 500


@dataclass(frozen=True, slots=True)
class BookOrder:
    """The book to write, and whether to compress it (gzip)."""

    count: int
    supplier: str
    seed: int
    today: date
    broken_share: float = 0.0
    compress: bool = False


def generate_chunks(order: BookOrder, workers: int | None = None) -> Iterator[tuple[int, bytes]]:
    """Yield the lines of the book in order: pairs of a number of accounts and their NDJSON (or gzip).

    The bytes do not depend on the number of workers. The default is one for each processor. Raise ValueError
    for a negative seed or a day that is too far away, and RuntimeError if a worker dies early.
    """
    open_book(order.supplier, order.seed, order.today)
    firsts = range(0, order.count, ACCOUNTS_A_CHUNK)
    workers = min(workers or os.cpu_count() or 1, len(firsts))
    if workers <= 1:
        for first in firsts:
            yield _make_chunk(order, first)
        return
    pool = ProcessPoolExecutor(workers, initializer=_follow_parent)
    waiting: deque[Future[tuple[int, bytes]]] = deque()
    try:
        for first in firsts:
            if len(waiting) > workers:
                yield waiting.popleft().result()
            waiting.append(pool.submit(_make_chunk, order, first))
        while waiting:
            yield waiting.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)


def _make_chunk(order: BookOrder, first: int) -> tuple[int, bytes]:
    count = min(ACCOUNTS_A_CHUNK, order.count - first)
    lines = generate_lines(
        count,
        supplier=order.supplier,
        seed=order.seed,
        today=order.today,
        first=first,
        broken_share=order.broken_share,
    )
    chunk = b"".join(lines)
    return count, gzip.compress(chunk, compresslevel=4, mtime=0) if order.compress else chunk


def _follow_parent() -> None:
    """Leave Ctrl-C to the parent of this worker process, and end when the parent does."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    if parent := multiprocessing.parent_process():
        parent.join()
    os._exit(1)
