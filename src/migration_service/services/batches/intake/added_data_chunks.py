"""Chunks of added data: each has every line of some accounts, so that their order is that of the file.

Which chunk an account belongs to follows from its number alone, so a file is cut in constant memory, and an
account with most of the lines is no special case: its chunk is longer, and is worked on in pieces.
"""

from zlib import crc32

from migration_service.services.batches.intake.ndjson import Line
from migration_service.services.batches.intake.spool import SpooledLines

#: Bytes of lines that a chunk has on average, at most.
CHUNK_BYTES = 1_000_000


class AccountChunks:
    """The chunks of a file, found while its lines arrive. A chunk is named by its first line."""

    def __init__(self, lines: SpooledLines, chunk_lines: int) -> None:
        self._chunks = max(1, lines.count // chunk_lines, lines.stored_bytes // CHUNK_BYTES)
        self._ranges: dict[int, list[int]] = {}

    def add(self, line: Line, number: str | None) -> int:
        """Return the chunk of a line. One without an account number can be in any."""
        key = str(line.number) if number is None else number
        found = self._ranges.setdefault(crc32(key.encode()) % self._chunks, [line.number, line.number])
        found[1] = line.number
        return found[0]

    @property
    def ranges(self) -> list[tuple[int, int]]:
        """The first and the last line of each chunk. Lines of others are between them."""
        return [(first, last) for first, last in self._ranges.values()]
