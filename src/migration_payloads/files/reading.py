"""Opening a file of payloads for a command: its lines, and how far they have been read."""

import os
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any

from migration_payloads.errors import BatchFileError
from migration_payloads.files.formats import require_ndjson
from migration_payloads.files.ndjson import FileLimits, Line, read_blocks, read_lines

#: A line may be as long as the interface accepts by default. A file may have any length.
LIMITS = FileLimits(line=8_000_000, total=sys.maxsize)
#: The name of standard input.
STANDARD_INPUT = Path("-")


class UnreadableFileError(Exception):
    """The file cannot be read. The text says why, and names the file."""


@dataclass(frozen=True, slots=True)
class OpenFile:
    """A file of payloads that is being read."""

    lines: Iterator[Line]
    #: The size of the file in bytes, or None for a pipe.
    size: int | None
    _stream: IO[bytes]

    @property
    def position(self) -> int | None:
        """Return how many bytes have been read, or None for a pipe."""
        return None if self.size is None else self._stream.tell()


@contextmanager
def open_file(file: Path, copy: IO[bytes] | None = None) -> Iterator[OpenFile]:
    """Open NDJSON, plain or gzip. Raise UnreadableFileError here or while the lines are read.

    What is read is also written to `copy`.
    """
    with _open(file) as stream:
        size = os.fstat(stream.fileno()).st_size if file != STANDARD_INPUT and stream.seekable() else None
        with _naming(file):
            lines = require_ndjson(read_lines(_blocks(stream, file, copy), LIMITS))
        yield OpenFile(_named(lines, file), size, stream)


def _named(lines: Iterator[Line], file: Path) -> Iterator[Line]:
    with _naming(file):
        yield from lines


@contextmanager
def _naming(file: Path) -> Iterator[None]:
    """Let a fault of the file name it: two may be open."""
    try:
        yield
    except BatchFileError as error:
        raise UnreadableFileError(f"{file} cannot be read: {error}") from error


def copy_of_pipe(file: Path) -> AbstractContextManager[IO[bytes] | None]:
    """Return a temporary file for a copy, or None if `file` is no pipe and can be read once more."""
    return nullcontext() if file != STANDARD_INPUT and file.is_file() else TemporaryFile()


def read_again(file: Path, copy: IO[bytes] | None) -> Iterator[Line]:
    """Yield the lines of a file, or of its copy, once more. Raise UnreadableFileError meanwhile."""
    if copy is None:
        with open_file(file) as opened:
            yield from opened.lines
    else:
        copy.seek(0)
        yield from read_lines(read_blocks(copy), LIMITS)


def _open(file: Path) -> Any:
    if file == STANDARD_INPUT:
        return nullcontext(sys.stdin.buffer)
    try:
        return file.open("rb")
    except OSError as error:
        raise _unreadable(file, error) from error


def _blocks(stream: IO[bytes], file: Path, copy: IO[bytes] | None) -> Iterator[bytes]:
    try:
        for block in read_blocks(stream):
            if copy is not None:
                copy.write(block)
            yield block
    except OSError as error:
        raise _unreadable(file, error) from error


def _unreadable(file: Path, error: OSError) -> UnreadableFileError:
    return UnreadableFileError(f"{file} cannot be read: {error.strerror}.")
