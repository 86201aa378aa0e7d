"""`migration-service samples`: write a book of invented accounts as NDJSON.

Writes a book as NDJSON on all processors.

A worker process generates a chunk only when it will soon be read, so memory use stays constant even if the
reader is slow.
"""

import gzip
import multiprocessing
import os
import signal
import sys
import threading
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import IO

import click

from migration_payloads.files.output import OutputPath, replacing
from migration_service.cli.options import Moment
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


@click.command("samples")
@click.argument("count", type=click.IntRange(min=0))
@click.option("--supplier", required=True, metavar="CODE", help="The import supplier that the accounts name.")
@click.option(
    "--seed",
    type=click.IntRange(min=0),
    default=1,
    show_default=True,
    help="The seed of the book. Each seed gives a different one.",
)
@click.option(
    "--today",
    type=Moment(["%Y-%m-%d"], "2027-03-01"),
    help="The newest date in the book.  [default: today in UTC]",
)
@click.option(
    "--broken-share",
    type=click.FloatRange(0, 1),
    default=0.0,
    metavar="SHARE",
    help="The share of accounts with an error of a known kind, from 0 to 1, for example 0.03.",
)
@click.option(
    "--output",
    type=OutputPath(),
    metavar="FILE",
    help="Write to FILE instead of standard output, compressed with gzip if its name ends in .gz.",
)
@click.option(
    "--workers",
    type=click.IntRange(min=1),
    metavar="N",
    help="Number of processes.  [default: one per processor]",
)
def samples(
    *,
    count: int,
    supplier: str,
    seed: int,
    today: datetime | None,
    broken_share: float,
    output: Path | None,
    workers: int | None,
) -> None:
    """Write COUNT invented accounts as NDJSON: one account import payload per line.

    The same seed on the same day gives the same book, and a larger book starts with the accounts of a smaller
    one. Valid accounts pass every rule, even under the strict profile.

    \b
    migration-service samples 100 --supplier NORTHSTAR | head -n 1
    migration-service samples 1000000 --supplier NORTHSTAR --output book.ndjson.gz
    """
    order = BookOrder(
        count,
        supplier,
        seed,
        (today or datetime.now(UTC)).date(),
        broken_share,
        compress=output is not None and output.name.endswith(".gz"),
    )
    try:
        with replacing(output) if output else nullcontext(sys.stdout.buffer) as stream:
            _write(order, stream, workers)
    except BrokenPipeError:
        if output is not None:
            raise
        # The reader ended early, as `head` does. Flushing to it at exit would fail.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except ValueError as error:
        raise click.ClickException(str(error)) from error


def _write(order: BookOrder, stream: IO[bytes], workers: int | None) -> None:
    """Write the book, with a progress bar if standard error is a terminal."""
    with click.progressbar(
        length=order.count, label="Accounts", file=sys.stderr, hidden=not sys.stderr.isatty(), show_pos=True
    ) as progress:
        for accounts, chunk in generate_chunks(order, workers):
            stream.write(chunk)
            progress.update(accounts)
        stream.flush()
