"""The lines of a file, with progress, and the options of commands that check them."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import click

from migration_payloads.files.ndjson import Line
from migration_payloads.files.reading import UnreadableFileError, open_file
from migration_payloads.moments import DEFAULT_TIME_ZONE, is_time_zone
from migration_payloads.profile import Profile
from migration_service_client.command.errors import CannotRunError
from migration_service_client.command.output import progress


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

#: The progress is shown again after so many lines.
_STEP = 200


@contextmanager
def open_lines(file: Path, label: str = "", copy: IO[bytes] | None = None) -> Iterator[Iterator[Line]]:
    """Open NDJSON, plain or gzip, or standard input for `-`. Without a label, no progress is shown.

    What is read is also written to `copy`. Raise CannotRunError here or while the lines are read.
    """
    try:
        with open_file(file, copy) as opened, progress(label, opened.size or 0) as bar:

            def lines() -> Iterator[Line]:
                seen = 0
                for number, line in enumerate(opened.lines):
                    if number % _STEP == 0:
                        position = opened.position or 0
                        bar.update(position - seen)
                        seen = position
                    yield line

            yield lines()
    except UnreadableFileError as error:
        raise CannotRunError(str(error)) from error
