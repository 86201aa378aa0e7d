"""The lines of a file, with progress, and the options of commands that check them."""

import os
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any

import click

from migration_payloads.errors import BatchFileError
from migration_payloads.files import ndjson
from migration_payloads.files.formats import require_ndjson
from migration_payloads.files.ndjson import Line
from migration_payloads.moments import DEFAULT_TIME_ZONE, is_time_zone
from migration_payloads.profile import Profile
from migration_service_client.command.errors import CannotRunError
from migration_service_client.command.output import progress

#: A line may be as long as the interface accepts by default. A file may have any length.
LIMITS = ndjson.FileLimits(line=8_000_000, total=sys.maxsize)
#: The name of standard input.
STANDARD_INPUT = Path("-")
#: The progress is shown again after so many lines.
_STEP = 200


def _read_time_zone(_context: click.Context, _parameter: click.Parameter, name: str) -> str:
    if not is_time_zone(name):
        raise click.BadParameter(f"{name} is not a time zone: expected a name such as {DEFAULT_TIME_ZONE}.")
    return name


file_argument = click.argument("file", type=click.Path(dir_okay=False, allow_dash=True, path_type=Path))
profile_option = click.option(
    "--profile",
    type=click.Choice([profile.value for profile in Profile]),
    default=Profile.LENIENT.value,
    show_default=True,
    help="strict: warnings count as errors.",
)
time_zone_option = click.option(
    "--time-zone",
    default=DEFAULT_TIME_ZONE,
    show_default=True,
    metavar="NAME",
    callback=_read_time_zone,
    help="The supplier's time zone, which determines today's date.",
)


@contextmanager
def open_lines(file: Path, label: str = "", copy: IO[bytes] | None = None) -> Iterator[Iterator[Line]]:
    """Open NDJSON, plain or gzip, or standard input for `-`. Without a label, no progress is shown.

    What is read is also written to `copy`. Raise CannotRunError here or while the lines are read.
    """
    with _open(file) as stream:
        size = os.fstat(stream.fileno()).st_size if file != STANDARD_INPUT and stream.seekable() else 0
        with _naming(file):
            found = require_ndjson(ndjson.read_lines(_blocks(stream, copy), LIMITS))
        with progress(label, size) as bar:

            def lines() -> Iterator[Line]:
                for number, line in enumerate(_named(found, file)):
                    if number % _STEP == 0:
                        bar.update(stream.tell() - bar.pos if size else 0)
                    yield line

            yield lines()


def _named(lines: Iterator[Line], file: Path) -> Iterator[Line]:
    with _naming(file):
        yield from lines


def copy_of_pipe(file: Path) -> AbstractContextManager[IO[bytes] | None]:
    """Return a temporary file for a copy, or None if `file` is no pipe and can be read once more."""
    return nullcontext() if file != STANDARD_INPUT and file.is_file() else TemporaryFile()


def read_lines(file: Path, copy: IO[bytes] | None = None) -> Iterator[Line]:
    """Yield the lines of a file, or those of its copy once more. Raise CannotRunError meanwhile."""
    if copy is None:
        with open_lines(file) as lines:
            yield from lines
    else:
        copy.seek(0)
        yield from ndjson.read_lines(ndjson.read_blocks(copy), LIMITS)


@contextmanager
def _naming(file: Path) -> Iterator[None]:
    """Let a fault of the file name it: two may be open."""
    try:
        yield
    except (BatchFileError, OSError) as error:
        why = f"{error.strerror}." if isinstance(error, OSError) else error
        raise CannotRunError(f"{file} cannot be read: {why}") from error


def _open(file: Path) -> Any:
    if file == STANDARD_INPUT:
        return nullcontext(sys.stdin.buffer)
    with _naming(file):
        return file.open("rb")


def _blocks(stream: IO[bytes], copy: IO[bytes] | None) -> Iterator[bytes]:
    for block in ndjson.read_blocks(stream):
        if copy is not None:
            copy.write(block)
        yield block
