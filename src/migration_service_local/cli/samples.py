"""`migration-service samples`: write a book of invented accounts as NDJSON."""

import os
import sys
from contextlib import nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import IO

import click

from migration_payloads.files.output import OutputPath, replacing
from migration_service.cli.moments import Moment
from migration_service_local.samples.parallel import BookOrder, generate_chunks


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
