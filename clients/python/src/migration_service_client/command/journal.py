"""A file of lines that are only appended, so that a command that was killed goes on where it stopped.

Each line is a JSON object, and the first one says which command it is of. A line that was cut off, because
the process was killed or the disk was full, can only be the last one. It counts as not written.
"""

import json
import os
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self, TypeAlias

from migration_service_client.command.errors import CannotRunError

if sys.platform != "win32":
    import fcntl

Record: TypeAlias = dict[str, Any]

#: What this version writes. A journal of a later one is not read.
_VERSION = 1


class Journal:
    """An open journal, which no other process can open. Use it in a `with` statement."""

    def __init__(self, path: Path, command: str, take: Callable[[Record], None]) -> None:
        """Open the journal of this command, or create it. `take` is called with each record that it has.

        Raise CannotRunError if another process has it open, or if it cannot be read.
        """
        self.path = path
        self._command = command
        self._file = _open(path)
        try:
            with os.fdopen(os.dup(self._file), "rb") as file:
                file.seek(0)
                self._size, self.is_torn = _read(file, path, command, take)
            os.ftruncate(self._file, self._size)
        except BaseException:
            os.close(self._file)
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._file)

    def append(self, record: Record, *, to_disk: bool = False) -> None:
        """Write a record. With `to_disk`, return once it would survive a power failure.

        Raise CannotRunError if it cannot be written. The journal is then as it was.
        """
        lines = _line(record) if self._size else _head(self._command) + _line(record)
        try:
            _write(self._file, lines)
            if to_disk:
                os.fsync(self._file)
        except OSError as error:
            os.ftruncate(self._file, self._size)
            raise CannotRunError(f"{self.path} cannot be written: {error.strerror}.") from error
        self._size += len(lines)

    def replace(self, records: Iterable[Record]) -> None:
        """Let the journal have these records instead. If the process is killed, it has the old ones or these.

        Raise CannotRunError if it cannot be written. The journal is then as it was.
        """
        path = self.path.with_name(f"{self.path.name}.new")
        lines = _head(self._command) + b"".join(map(_line, records))
        file = _open(path)
        try:
            os.ftruncate(file, 0)
            _write(file, lines)
            os.fsync(file)
            path.replace(self.path)
        except OSError as error:
            os.close(file)
            raise CannotRunError(f"{path} cannot be written: {error.strerror}.") from error
        os.close(self._file)
        self._file, self._size = file, len(lines)


def read_journal(path: Path, command: str, take: Callable[[Record], None]) -> None:
    """Call `take` with each record of a journal, which another process may be writing.

    Raise CannotRunError if it cannot be read.
    """
    with path.open("rb") as file:
        _read(file, path, command, take)


def _open(path: Path) -> int:
    """Open a file for this process alone. Raise CannotRunError if another one has it."""
    while True:
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | getattr(os, "O_BINARY", 0), 0o666)
        try:
            if sys.platform != "win32":
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Another process may have put a new file there since this one was opened.
            if path.exists() and os.path.samestat(path.stat(), os.fstat(file)):
                return file
        except BlockingIOError:
            os.close(file)
            raise CannotRunError(
                f"Another migration-client is using {path}. Wait for its end, or name another --journal."
            ) from None
        os.close(file)


def _read(file: IO[bytes], path: Path, command: str, take: Callable[[Record], None]) -> tuple[int, bool]:
    """Return the size of the whole lines, and whether another one follows that was cut off."""
    head = _head(command)
    first = file.readline()
    if not first.endswith(b"\n") and head.startswith(first):
        return 0, bool(first)
    if first != head:
        raise CannotRunError(_describe_head(first, path, command))
    size, torn = len(first), False
    for number, line in enumerate(file, 2):
        if torn:
            raise CannotRunError(
                f"{path} is damaged in line {number - 1}: expected a JSON object. Nothing was done. "
                "Restore the file, or remove it to begin anew."
            )
        record = _parsed(line)
        if record is None:
            torn = True
        else:
            take(record)
            size += len(line)
    return size, torn


def _parsed(line: bytes) -> Record | None:
    try:
        record = json.loads(line) if line.endswith(b"\n") else None
    except ValueError:
        return None
    return record if isinstance(record, dict) else None


def _describe_head(first: bytes, path: Path, command: str) -> str:
    """Return what is wrong with a first line that is not that of this command and version."""
    head = _parsed(first) or {}
    if head.get("journal") == command:
        return f"{path} was written by a later version of migration-client: install that version."
    return (
        f"{path} is not a journal of `migration-client {command}`, so it is left alone. "
        "Name another file with --journal."
    )


def _head(command: str) -> bytes:
    return _line({"journal": command, "version": _VERSION})


def _line(record: Record) -> bytes:
    return json.dumps(record).encode() + b"\n"


def _write(file: int, lines: bytes) -> None:
    left = memoryview(lines)
    while left:
        left = left[os.write(file, left) :]
