"""Chunks of accounts: ranges of lines, smaller at the end of a batch so that its workers end together.

A worker that finds no chunk left is idle until the others have finished theirs. A chunk costs as much as
sixteen accounts, however few it has (docs/performance.md), so halves pay at the end and less does not.
"""

from math import ceil

from migration_service.services.batches.intake.ndjson import Line

#: A chunk of accounts has at most so many bytes of lines.
CHUNK_BYTES = 4_000_000
#: The least lines of a chunk at the end of a batch, except for its last one.
LAST_CHUNK_LINES = 50
#: At the end of a batch a chunk has this part of the lines that are left.
_LAST_SHARE = 1 / 4


class RangeChunks:
    """The chunks of a file, found while its lines arrive: the first and the last line of each.

    `lines` is how many lines there are, `largest` how many a chunk has, and `smallest` how few at the end.
    """

    def __init__(self, lines: int, largest: int, smallest: int = LAST_CHUNK_LINES) -> None:
        self.ranges: list[tuple[int, int]] = []
        self._left, self._largest, self._smallest = lines, largest, smallest
        self._room = self._bytes = 0

    def add(self, line: Line, _number: str | None = None) -> None:
        """Put a line into the last chunk, or into a new one if that is full."""
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
    """Return the chunks of lines that are numbered from 1 without gaps, as RangeChunks finds them."""
    ranges, done = [], 0
    while done < lines:
        size = min(lines - done, _next_size(lines - done, largest, smallest))
        ranges.append((done + 1, done + size))
        done += size
    return ranges


def _next_size(left: int, largest: int, smallest: int) -> int:
    return min(largest, max(smallest, ceil(left * _LAST_SHARE)))
