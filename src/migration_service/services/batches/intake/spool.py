"""A file of a batch that is on disk before the database sees a line of it.

While it comes in it takes no connection to the database, and if it breaks off or is refused, nothing of it
is left: the file has no name and is gone when it is closed, or when the process dies. It is kept as it was
sent, so gzip data takes no more room than it has bytes.
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

from migration_service.errors import UploadStorageFullError
from migration_service.services.batches.intake.file_totals import FileTotals
from migration_service.services.batches.intake.formats import require_ndjson
from migration_service.services.batches.intake.ndjson import FileLimits, Line, read_blocks, read_lines

#: What a line counts for the quota beside its text: its row, its entry in the index, its outcome.
LINE_OVERHEAD = 200
#: The part of the disk that uploads leave free.
_FREE_SHARE = 0.05
#: Bytes after which the disk is looked at again.
_DISK_CHECK = 16_000_000


@dataclass(frozen=True, slots=True)
class SentFile:
    """The identity of a file as it was sent, which is what `sha256sum` and `ls -l` say of it."""

    #: None if there was no file, or if nobody counted.
    sha256: bytes | None = None
    bytes: int | None = None
    #: What its lines add up to, as `FileTotals` has it. None if they are no accounts.
    totals: dict[str, Any] | None = None


class SpooledLines:
    """The lines of a file that was read to its end once, and is within its limits.

    They can be read again. `on_block` is called for each block of the file when they are.
    """

    def __init__(
        self,
        file: IO[bytes],
        limits: FileLimits,
        *,
        identity: bytes,
        arriving: Iterable[bytes] | None = None,
        on_block: Callable[[], None] = lambda: None,
    ) -> None:
        """Read the file, or the blocks of `arriving`, which are written into it. `identity` begins the hash.

        Raise what `read_lines` and `require_ndjson` raise.
        """
        self._file, self._limits, self._on_block = file, limits, on_block
        #: What the lines take in the database.
        self.stored_bytes = 0
        #: How many there are.
        self.count = 0
        hashed = sha256(identity)
        self._file_hash, self._file_bytes, totals = sha256(), 0, FileTotals()
        blocks = self._counted(self._blocks() if arriving is None else arriving)
        for line in require_ndjson(read_lines(blocks, limits)):
            self.count += 1
            self.stored_bytes += LINE_OVERHEAD + len(line.text or b"")
            hashed.update(b"%d %b\n" % (line.number, line.text or b"-"))
            totals.add_line(line.text)
        #: The hash of all lines, and of what is asked for.
        self.sha256 = hashed.digest()
        #: The file itself, with its compression and its blank lines.
        self.sent_file = SentFile(self._file_hash.digest(), self._file_bytes, totals.to_dict())

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
) -> Iterator[SpooledLines]:
    """Keep what `blocks` bring in a file in `folder` until the end of the block.

    Raise what SpooledLines raises, and UploadStorageFullError if the disk has no room.
    """
    with TemporaryFile(dir=folder or None) as file:
        arriving = _keep(blocks, file, Path(folder or gettempdir()), on_block)
        yield SpooledLines(file, limits, identity=identity, arriving=arriving, on_block=on_block)


def _keep(
    blocks: Iterable[bytes], file: IO[bytes], folder: Path, on_block: Callable[[], None]
) -> Iterator[bytes]:
    unchecked = _DISK_CHECK
    for block in blocks:
        unchecked += len(block)
        if unchecked >= _DISK_CHECK:
            unchecked = 0
            _require_room(folder)
        try:
            file.write(block)
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
                raise
            raise UploadStorageFullError from error
        on_block()
        yield block


def _require_room(folder: Path) -> None:
    if not has_room(folder):
        raise UploadStorageFullError


def has_room(folder: Path) -> bool:
    """Return whether the disk of this folder has room for uploads."""
    disk = shutil.disk_usage(folder)
    return disk.free >= disk.total * _FREE_SHARE
