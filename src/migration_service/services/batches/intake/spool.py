"""The file of a batch, spooled to disk before any line is stored in the database.

An upload holds no database connection while it arrives. If it is interrupted or refused, nothing of it
remains: the file has no name, and disappears when it is closed or the process dies. It is kept as it was
sent, so gzip data stays compressed.
"""

import errno
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryFile, gettempdir
from typing import IO, Any

from migration_payloads.files.formats import require_ndjson
from migration_payloads.files.ndjson import FileLimits, Line, read_blocks, read_lines
from migration_service.errors import UploadStorageFullError

#: Bytes that a line counts for the quota in addition to its text: its row, index entry and outcome.
LINE_OVERHEAD = 200
#: The share of the disk that uploads leave free.
FREE_SHARE = 0.05
#: Bytes after which the free space is checked again.
_DISK_CHECK = 16_000_000


@dataclass(frozen=True, slots=True)
class SentFile:
    """The hash and size of a file as it was sent, and its `FileTotals`. None if they are not known."""

    sha256: bytes | None = None
    bytes: int | None = None
    totals: dict[str, Any] | None = None


class SpooledLines:
    """The lines of a file that has been read completely once and is within its limits."""

    def __init__(
        self,
        file: IO[bytes],
        limits: FileLimits,
        *,
        identity: bytes,
        arriving: Iterable[bytes] | None = None,
        on_block: Callable[[], None] = lambda: None,
        examine: Callable[[Iterable[Line]], Iterable[Line]] = require_ndjson,
    ) -> None:
        """Read the file, or write the blocks of `arriving` into it. The hash starts with `identity`.

        `on_block` is called for each block of the file when the lines are read again.
        """
        self._file, self._limits, self._on_block = file, limits, on_block
        #: The number of lines, and the bytes that they take in the database.
        self.count = self.stored_bytes = 0
        hashed = sha256(identity)
        self._file_hash, self._file_bytes = sha256(), 0
        blocks = self._counted(self._blocks() if arriving is None else arriving)
        for line in examine(read_lines(blocks, limits)):
            self.count += 1
            self.stored_bytes += LINE_OVERHEAD + len(line.text or b"")
            hashed.update(b"%d %b\n" % (line.number, line.text or b"-"))
        #: The hash of all lines and of the request.
        self.sha256 = hashed.digest()
        #: The file itself, with its compression and its blank lines.
        self.sent_file = SentFile(self._file_hash.digest(), self._file_bytes)

    def __iter__(self) -> Iterator[Line]:
        return read_lines(self._blocks(), self._limits)

    def _counted(self, blocks: Iterable[bytes]) -> Iterator[bytes]:
        for block in blocks:
            self._file_hash.update(block)
            self._file_bytes += len(block)
            yield block

    def _blocks(self) -> Iterator[bytes]:
        self._file.seek(0)
        for block in read_blocks(self._file):
            self._on_block()
            yield block


@contextmanager
def spool(
    blocks: Iterable[bytes],
    limits: FileLimits,
    *,
    identity: bytes,
    folder: str = "",
    on_block: Callable[[], None] = lambda: None,
    examine: Callable[[Iterable[Line]], Iterable[Line]] = require_ndjson,
) -> Iterator[SpooledLines]:
    """Keep the contents of `blocks` in a file. Raise UploadStorageFullError if the disk is too full."""
    with TemporaryFile(dir=folder or None) as file:
        arriving = _keep(blocks, file, Path(folder or gettempdir()), on_block)
        yield SpooledLines(
            file, limits, identity=identity, arriving=arriving, on_block=on_block, examine=examine
        )


def _keep(
    blocks: Iterable[bytes], file: IO[bytes], folder: Path, on_block: Callable[[], None]
) -> Iterator[bytes]:
    unchecked = _DISK_CHECK
    for block in blocks:
        unchecked += len(block)
        if unchecked >= _DISK_CHECK:
            unchecked = 0
            if not has_room(folder):
                raise UploadStorageFullError
        try:
            file.write(block)
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
                raise
            raise UploadStorageFullError from error
        on_block()
        yield block


def has_room(folder: Path) -> bool:
    """Return whether the folder's disk has room for uploads."""
    disk = shutil.disk_usage(folder)
    return disk.free >= disk.total * FREE_SHARE
