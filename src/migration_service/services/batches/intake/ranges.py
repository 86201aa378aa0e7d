"""Chunks of accounts: ranges of lines, smaller at the end of a batch so that its workers finish together.

A worker that finds no chunk is idle until the others have finished. A chunk has a fixed cost of about sixteen
accounts (docs/performance.md), so halving chunks at the end pays, and smaller ones do not.
"""

from math import ceil

from migration_service.services.batches.intake.ndjson import Line

#: The largest size of a chunk of accounts, in bytes of lines.
CHUNK_BYTES = 4_000_000
#: The smallest number of lines in a chunk at the end of a batch, except for the last chunk.
LAST_CHUNK_LINES = 50
#: At the end of a batch, the share of the remaining lines that a chunk gets.
_LAST_SHARE = 1 / 4


class RangeChunks:
    """The chunks of a file, determined while its lines arrive: the first and last line of each.

    `lines` is the number of lines, `largest` the usual size of a chunk, and `smallest` its least size at the
    end.
    """

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
