"""The division of a file into chunks, while its lines arrive.

Chunks of accounts are ranges of lines, smaller at the end of a batch so that its workers finish together: a
worker that finds no chunk is idle until the others have finished. A chunk has a fixed cost of about sixteen
accounts (docs/performance.md), so halving chunks at the end pays, and smaller ones do not.
"""

from math import ceil
from zlib import crc32

from migration_payloads.files.ndjson import Line
from migration_service.services.batches.intake.spool import SpooledLines

#: The largest size of a chunk of accounts, and the largest average size of one of added data, in bytes.
CHUNK_BYTES, ACCOUNT_CHUNK_BYTES = 4_000_000, 1_000_000
#: The smallest number of lines in a chunk at the end of a batch, except for the last chunk.
LAST_CHUNK_LINES = 50
#: At the end of a batch, the share of the remaining lines that a chunk gets.
_LAST_SHARE = 1 / 4


class RangeChunks:
    """The chunks of a file of accounts, of `largest` lines, and at the end of at least `smallest` lines."""

    def __init__(self, lines: int, largest: int, smallest: int = LAST_CHUNK_LINES) -> None:
        self.ranges: list[tuple[int, int]] = []
        self._left, self._largest, self._smallest = lines, largest, smallest
        self._room = self._bytes = 0

    def add(self, line: Line, _number: str | None = None) -> None:
        """Add a line to the last chunk, or to a new one if that is full."""
        size = len(line.text or b"")
        if not self._room or self._bytes + size > CHUNK_BYTES:
            self.ranges.append((line.number, line.number))
            self._room = _next_size(self._left, self._largest, self._smallest)
            self._bytes = 0
        self.ranges[-1] = (self.ranges[-1][0], line.number)
        self._room -= 1
        self._left -= 1
        self._bytes += size


def cut_lines(lines: int, largest: int, smallest: int = LAST_CHUNK_LINES) -> list[tuple[int, int]]:
    """Return the chunks of lines numbered from 1 without gaps, as RangeChunks determines them."""
    ranges, done = [], 0
    while done < lines:
        size = min(lines - done, _next_size(lines - done, largest, smallest))
        ranges.append((done + 1, done + size))
        done += size
    return ranges


def _next_size(left: int, largest: int, smallest: int) -> int:
    return min(largest, max(smallest, ceil(left * _LAST_SHARE)))


class AccountChunks:
    """The chunks of a file of added data. All lines of an account are in one, in the order of the file.

    The chunk of an account follows from its number alone, so a file is divided in constant memory. An account
    with most of the lines is no special case: its chunk is longer, and is processed in pieces. A chunk is
    identified by its first line.
    """

    def __init__(self, lines: SpooledLines, chunk_lines: int) -> None:
        self._chunks = max(1, lines.count // chunk_lines, lines.stored_bytes // ACCOUNT_CHUNK_BYTES)
        self._ranges: dict[int, list[int]] = {}

    def add(self, line: Line, number: str | None) -> int:
        """Return the chunk of a line. A line without an account number can be in any chunk."""
        key = str(line.number) if number is None else number
        found = self._ranges.setdefault(crc32(key.encode()) % self._chunks, [line.number, line.number])
        found[1] = line.number
        return found[0]

    @property
    def ranges(self) -> list[tuple[int, int]]:
        """The first and last line of each chunk. The lines between them can belong to other chunks."""
        return [(first, last) for first, last in self._ranges.values()]
