"""Writes a book as NDJSON on all processors.

Each worker process generates every n-th chunk and has its own pipe. A worker waits while its pipe is full, so
memory use stays constant even if the reader is slow. If the reader ends, so does the worker.
"""

import gzip
import multiprocessing
import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import date
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess

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
            yield _accounts_in(order, first), _make_chunk(order, first)
        return
    started: list[tuple[BaseProcess, Connection]] = []
    try:
        for worker in range(workers):
            started.append(_start(order, firsts[worker::workers]))
        for position, first in enumerate(firsts):
            yield _accounts_in(order, first), _receive(started[position % workers][1])
    finally:
        for process, reader in started:
            reader.close()
            process.terminate()
            process.join()
            process.close()


def _accounts_in(order: BookOrder, first: int) -> int:
    return min(ACCOUNTS_A_CHUNK, order.count - first)


def _make_chunk(order: BookOrder, first: int) -> bytes:
    lines = generate_lines(
        _accounts_in(order, first),
        supplier=order.supplier,
        seed=order.seed,
        today=order.today,
        first=first,
        broken_share=order.broken_share,
    )
    chunk = b"".join(lines)
    return gzip.compress(chunk, compresslevel=4, mtime=0) if order.compress else chunk


def _start(order: BookOrder, firsts: range) -> tuple[BaseProcess, Connection]:
    reader, writer = multiprocessing.Pipe(duplex=False)
    process = multiprocessing.Process(target=_work, args=(order, firsts, reader, writer), daemon=True)
    process.start()
    # Only the worker may hold this end. Otherwise its death would go unnoticed here.
    writer.close()
    return process, reader


def _work(order: BookOrder, firsts: range, reader: Connection, writer: Connection) -> None:
    """Run in a worker process. Ignore Ctrl-C, because the parent handles it and closes the pipe."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    reader.close()
    with suppress(BrokenPipeError):
        for first in firsts:
            writer.send_bytes(_make_chunk(order, first))


def _receive(reader: Connection) -> bytes:
    try:
        return reader.recv_bytes()
    except EOFError as error:
        raise RuntimeError("A worker process that generates accounts died.") from error
