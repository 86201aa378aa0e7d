"""The ranges of lines that are chunks of accounts, and their sizes at the end of a batch."""

import pytest

from migration_payloads.files.ndjson import Line
from migration_service.services.batches.intake.ranges import RangeChunks, cut_lines


def _sizes(ranges: list[tuple[int, int]]) -> list[int]:
    return [last - first + 1 for first, last in ranges]


@pytest.mark.parametrize(("largest", "smallest"), [(100, 50), (100, 100), (3, 50), (1, 1)])
def test_every_line_is_in_one_chunk_however_long_the_batch_is(largest: int, smallest: int) -> None:
    for lines in (*range(1, 450, 7), 5_000):
        ranges = cut_lines(lines, largest, smallest)
        numbers = [number for first, last in ranges for number in range(first, last + 1)]
        assert numbers == list(range(1, lines + 1))
        assert max(_sizes(ranges)) <= largest


@pytest.mark.parametrize("lines", [1, 51, 100, 101, 400, 1_234])
def test_a_file_has_the_same_chunks_as_lines_that_are_counted(lines: int) -> None:
    chunks = RangeChunks(lines, 100)
    for number in range(1, lines + 1):
        chunks.add(Line(number, b"{}"))
    assert chunks.ranges == cut_lines(lines, 100)


def test_blank_lines_between_two_chunks_are_in_neither() -> None:
    chunks = RangeChunks(4, largest=2)
    for number in (2, 3, 9, 11):
        chunks.add(Line(number, b"{}"))
    assert chunks.ranges == [(2, 3), (9, 11)]


def test_a_chunk_has_four_million_bytes_at_most() -> None:
    chunks = RangeChunks(9, largest=100)
    for number, size in enumerate((1_999_999, 2_000_001, 1, 2_000_000, 2_000_000, 0, 4_000_001, 0, 1), 1):
        chunks.add(Line(number, b"x" * size if size else None))
    assert chunks.ranges == [(1, 2), (3, 4), (5, 6), (7, 7), (8, 9)]
