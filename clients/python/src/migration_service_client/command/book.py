"""The file that a supplier sends: NDJSON, plain or gzip. What tells it from other files."""

import hashlib
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from migration_service_client.command.errors import CannotRunError
from migration_service_client.command.lines import read_lines
from migration_service_client.command.output import progress

_BLOCK = 1024 * 1024
#: The most bytes of a file that is small.
_SMALL = 10_000_000


@dataclass(frozen=True, slots=True)
class Book:
    """A file as it was read once, from its first byte to its last."""

    path: Path
    sha256: str


def read_book(path: Path) -> Book:
    """Return the file with its digest. Raise CannotRunError if it is no regular file."""
    if path.exists() and not path.is_file():
        raise CannotRunError(f"{path} is not a regular file. Write its content to one first.")
    digest = hashlib.sha256()
    with path.open("rb") as file, progress(f"Reading {path.name}", path.stat().st_size) as bar:
        while block := file.read(_BLOCK):
            digest.update(block)
            bar.update(len(block))
    return Book(path, digest.hexdigest())


def is_small(path: Path, lines: int) -> bool:
    """Return whether the file has at most so many lines, and is no larger than they usually are."""
    first = list(islice(read_lines(path), lines + 1))
    return len(first) <= lines and sum(len(line.text or b"") for line in first) <= _SMALL
