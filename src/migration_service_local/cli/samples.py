"""`migration-service samples`: write a book of invented accounts as NDJSON, on all processors."""

import gzip
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import IO, Any

import click

from migration_payloads.files.output import OutputPath, replacing
from migration_payloads.files.processes import map_in_processes
from migration_service.cli.options import Moment
from migration_service_local.samples import generate_accounts, write_lines

#: Accounts in a chunk. A gzip file has one member for each chunk.
ACCOUNTS_A_CHUNK = 500

#: Yields so many accounts of a book, from the one with the number `first`.
Book = Callable[..., Iterable[dict[str, Any]]]


def generate_chunks(
    book: Book, count: int, *, compress: bool = False, workers: int | None = None
) -> Iterator[tuple[int, bytes]]:
    """Yield the lines of the book in order: pairs of a number of accounts and their NDJSON (or gzip).

    The bytes do not depend on the number of workers. The default is one for each processor. A chunk is made
    only when it will soon be read. Raise ValueError for a day that is too far away, and RuntimeError if a
    worker dies early.
    """
    firsts = range(0, count, ACCOUNTS_A_CHUNK)
    workers = min(workers or os.cpu_count() or 1, len(firsts)) or 1
    return map_in_processes(partial(_make_chunk, book, count, compress), firsts, workers)


def _make_chunk(book: Book, count: int, compress: bool, first: int) -> tuple[int, bytes]:
    accounts = min(ACCOUNTS_A_CHUNK, count - first)
    chunk = b"".join(write_lines(book(accounts, first=first)))
    return accounts, gzip.compress(chunk, compresslevel=4, mtime=0) if compress else chunk


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
    day = (today or datetime.now(UTC)).date()
    book = partial(generate_accounts, supplier=supplier, seed=seed, today=day, broken_share=broken_share)
    compress = output is not None and output.name.endswith(".gz")
    try:
        with replacing(output) if output else nullcontext(sys.stdout.buffer) as stream:
            _write(generate_chunks(book, count, compress=compress, workers=workers), count, stream)
    except BrokenPipeError:
        if output is not None:
            raise
        # The reader ended early, as `head` does. Flushing to it at exit would fail.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except ValueError as error:
        raise click.ClickException(str(error)) from error


def _write(chunks: Iterable[tuple[int, bytes]], count: int, stream: IO[bytes]) -> None:
    """Write the book, with a progress bar if standard error is a terminal."""
    with click.progressbar(
        length=count, label="Accounts", file=sys.stderr, hidden=not sys.stderr.isatty(), show_pos=True
    ) as progress:
        for accounts, chunk in chunks:
            stream.write(chunk)
            progress.update(accounts)
        stream.flush()
