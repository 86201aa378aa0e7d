"""Chunks of added data. All lines of an account are in one chunk, so that they keep the order of the file.

The chunk of an account follows from its number alone, so a file is divided in constant memory. An account
with most of the lines is no special case: its chunk is longer, and is processed in pieces.
"""

from zlib import crc32

from migration_service.services.batches.intake.ndjson import Line
from migration_service.services.batches.intake.spool import SpooledLines

#: The largest average size of a chunk, in bytes.
CHUNK_BYTES = 1_000_000


class AccountChunks:
    """The chunks of a file, determined while its lines arrive. A chunk is identified by its first line."""

    def __init__(self, lines: SpooledLines, chunk_lines: int) -> None:
        self._chunks = max(1, lines.count // chunk_lines, lines.stored_bytes // CHUNK_BYTES)
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
