"""Rows that are read, and answers that are sent, in pieces bounded by bytes instead of by rows.

A line may have 8 MB, a hundredth of that in the database, and twenty times that once it is decoded. So a
statement reads rows up to a sum of bytes (`first_rows`), a stream holds one piece while its client reads
(`in_pieces`), and large JSON is decoded a little at a time in each process (`DECODED`).
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

Row = TypeVar("Row")
Place = TypeVar("Place")

#: Bytes of the rows that a statement reads at once, by their `weight_of`. There is at least one.
READ_BYTES = 131_072
#: Bytes after which a piece of an answer ends, if all rows that were read are in it, and in any case. The row
#: at which it ends is whole.
PIECE_BYTES, LONGEST_PIECE = 65_536, 262_144
#: How many times longer than stored a compressed value is taken to be. In the worst case it is 250 times.
_UNPACKED = 8
#: JSON texts that are shorter than this are decoded without waiting.
LIGHT = 65_536


def weight_of(*columns: str) -> str:
    """Return SQL for the bytes of these columns, without reading a value that is stored apart."""
    return " + ".join(
        f"coalesce(pg_column_size({it}) * CASE WHEN pg_column_compression({it}) IS NULL THEN 1 "
        f"ELSE {_UNPACKED} END, 0)"
        for it in columns
    )


def first_rows(rows: str, order: str, most: int | str = READ_BYTES) -> str:
    """Return SQL for the first of these rows in this order that weigh `most` together, and at least one.

    `rows` is a SELECT with a column `weight` and a LIMIT. It should have keys and weights only: what it
    selects is computed for all of its rows. The number of those is added as `in_all`.
    """
    return f"""
        SELECT *
        FROM (SELECT *, sum(weight) OVER (ORDER BY {order}) - weight AS weight_before,
                     count(*) OVER () AS in_all
              FROM ({rows}) AS weighed) AS placed
        WHERE weight_before < {most} ORDER BY {order}
    """


def in_pieces(
    read: Callable[[Place], Sequence[Row]],
    write: Callable[[Row], bytes],
    place_of: Callable[[Row], Place],
    start: Place,
) -> Iterator[bytes]:
    """Yield what `write` makes of the rows after a place, in pieces of about PIECE_BYTES.

    `read` returns the next rows, or none at the end. Between two pieces no row is kept, so that a slow client
    costs a piece. What a piece has no room for is read again, which happens if rows are far longer written
    than they weigh.
    """
    after, is_over = start, False
    while not is_over:
        piece, after, is_over = _gather(read, write, place_of, after)
        if piece:
            yield piece


def _gather(
    read: Callable[[Place], Sequence[Row]],
    write: Callable[[Row], bytes],
    place_of: Callable[[Row], Place],
    after: Place,
) -> tuple[bytes, Place, bool]:
    """Return the next piece, the place that it ends at, and whether nothing follows it."""
    written: list[bytes] = []
    length = 0
    while length < PIECE_BYTES:
        rows = read(after)
        if not rows:
            return b"".join(written), after, True
        for row in rows:
            written.append(write(row))
            length, after = length + len(written[-1]), place_of(row)
            if length >= LONGEST_PIECE:
                return b"".join(written), after, False
    return b"".join(written), after, False


class Scales:
    """Bytes of JSON text that threads hold decoded at the same time, `most` together or one large one."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._held = 0
        self._has_changed = threading.Condition()

    @contextmanager
    def holding(self, weight: int) -> Iterator[None]:
        """Wait until this many bytes may be decoded. They count until the end of the block."""
        if weight < LIGHT:
            yield
            return
        with self._has_changed:
            self._has_changed.wait_for(lambda: not self._held or self._held + weight <= self._most)
            self._held += weight
        try:
            yield
        finally:
            with self._has_changed:
                self._held -= weight
                self._has_changed.notify_all()


#: What this process holds decoded. 8 MB of empty lists become 170 MB of objects.
DECODED = Scales(8_000_000)
