"""The lines of a file, with progress."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from migration_payloads.files.ndjson import Line
from migration_payloads.files.reading import UnreadableFileError, open_file
from migration_service_client.command.errors import CannotRunError
from migration_service_client.command.output import progress

file_argument = click.argument("file", type=click.Path(dir_okay=False, allow_dash=True, path_type=Path))

#: The progress is shown again after so many lines.
_STEP = 200


@contextmanager
def open_lines(file: Path, label: str = "") -> Iterator[Iterator[Line]]:
    """Open NDJSON, plain or gzip, or standard input for `-`. Without a label, no progress is shown.

    Raise CannotRunError here or while the lines are read.
    """
    try:
        with open_file(file) as opened, progress(label, opened.size or 0) as bar:

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
