"""Reading NDJSON, plain and gzip, in constant memory."""

import gzip
import zlib
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from migration_payloads.files.ndjson import FileLimits, Line, read_lines
from migration_payloads.schemas.json import without_marks
from migration_service.errors import (
    BatchCompressionError,
    BatchFileError,
    BatchFileTooLargeError,
    BatchTooManyLinesError,
)

_LIMITS = FileLimits(line=1_000, total=100_000)
_OF_JOINED_FILES = [Line(1, b"a"), Line(2, b"b"), Line(4, b"c")]
_TOO_LONG = Line(2, None, b"y" * 1_001)


def _blocks(data: bytes, size: int) -> Iterator[bytes]:
    for start in range(0, len(data), size):
        yield data[start : start + size]


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        (b"", []),
        (b"\n\n", []),
        (b"a", [Line(1, b"a")]),
        (b"a\nb\n", [Line(1, b"a"), Line(2, b"b")]),
        (b"\xef\xbb\xbfa\r\n\r\n b \n\t\nc", [Line(1, b"a"), Line(3, b"b"), Line(5, b"c")]),
        (
            b"x" * 1_000 + b"\n" + b"y" * 1_001 + b"\nz",
            [Line(1, b"x" * 1_000), _TOO_LONG, Line(3, b"z")],
        ),
        (b"a\n" + b"y" * 2_000, [Line(1, b"a"), Line(2, None, b"y" * 1_005)]),
        # What is around a line does not count, and a mark in the middle of a file is one of a joined file.
        (b"\xef\xbb\xbf" + b"x" * 1_000 + b"\r\n", [Line(1, b"x" * 1_000)]),
        (b"a\n\xef\xbb\xbf b\n \xef\xbb\xbf\xef\xbb\xbf\n\xef\xbb\xbf \xef\xbb\xbfc", _OF_JOINED_FILES),
    ],
)
@pytest.mark.parametrize("size", [1, 7, 100_000])
@pytest.mark.parametrize("pack", [lambda data: data, gzip.compress])
def test_lines_are_complete_wherever_the_blocks_end(data, lines, size, pack) -> None:  # type: ignore[no-untyped-def]
    assert list(read_lines(_blocks(pack(data), size), _LIMITS)) == lines


@given(texts=st.lists(st.binary(max_size=50)), size=st.integers(1, 20), members=st.integers(1, 4))
def test_any_text_in_any_blocks_and_members_is_read_as_it_was_written(
    texts: list[bytes], size: int, members: int
) -> None:
    lines = [without_marks(text.replace(b"\n", b"")) for text in texts]
    data = b"".join(line + b"\n" for line in lines)
    parts = [data[i::members] for i in range(members)] if members == 1 else list(_split(data, members))
    packed = b"".join(gzip.compress(part) for part in parts)
    expected = [Line(number, line) for number, line in enumerate(lines, 1) if line]
    assert list(read_lines(_blocks(packed, size), _LIMITS)) == expected


def _split(data: bytes, members: int) -> Iterator[bytes]:
    step = len(data) // members + 1
    yield from (data[start : start + step] for start in range(0, step * members, step))


@pytest.mark.parametrize("cut", [1, 5, 9, 12])
def test_gzip_data_that_ends_early_is_an_error(cut: int) -> None:
    packed = gzip.compress(b"a\nb\n")
    with pytest.raises(BatchFileError, match="incomplete"):
        list(read_lines([packed[:-cut]], _LIMITS))


def test_broken_gzip_data_is_an_error() -> None:
    packed = bytearray(gzip.compress(b"a\nb\n" * 100))
    packed[-6] ^= 1
    with pytest.raises(BatchFileError, match="corrupt"):
        list(read_lines([bytes(packed)], _LIMITS))


def test_padding_after_gzip_data_is_ignored_and_garbage_is_an_error() -> None:
    packed = gzip.compress(b"a\n")
    assert list(read_lines([packed + b"\0" * 600], _LIMITS)) == [Line(1, b"a")]
    with pytest.raises(BatchFileError, match="corrupt"):
        list(read_lines([packed + b"more"], _LIMITS))


def test_a_small_file_that_grows_beyond_the_limit_is_refused_before_it_fills_the_memory() -> None:
    bomb = zlib.compress(b"\0" * 50_000_000, level=9, wbits=31)
    assert len(bomb) < 50_000
    with pytest.raises(BatchFileTooLargeError):
        list(read_lines([bomb], _LIMITS))


def test_a_line_is_read_as_soon_as_its_block_has_come() -> None:
    def blocks() -> Iterator[bytes]:
        yield b"a\n"
        raise AssertionError("the next block was asked for")

    assert next(read_lines(blocks(), _LIMITS)) == Line(1, b"a")


def test_a_file_may_have_as_many_bytes_and_lines_as_the_limits_say() -> None:
    limits = FileLimits(line=5, total=11, lines=4)
    data = b"aaaaa\nb\n\ncc"
    for size in (1, 3, 100):
        expected = [Line(1, b"aaaaa"), Line(2, b"b"), Line(4, b"cc")]
        assert list(read_lines(_blocks(data, size), limits)) == expected
        with pytest.raises(BatchFileTooLargeError, match="more than 11 bytes"):
            list(read_lines(_blocks(data + b"c", size), limits))
        for more in (b"a\n\nb\nc\nd", b"a\n\nb\nc\nd\n", b"\n\n\n\n\n"):
            with pytest.raises(BatchTooManyLinesError, match="more than 4 lines"):
                list(read_lines(_blocks(more, size), limits))
        assert len(list(read_lines(_blocks(b"a\nb\nc\nd\n", size), limits))) == 4


def test_gzip_data_may_hold_ten_million_bytes_whatever_their_ratio_is() -> None:
    limits = FileLimits(line=10, total=100_000_000, ratio=2)
    packed = zlib.compress(b"\0" * 10_000_000, level=9, wbits=31)
    assert list(read_lines([packed], limits)) == [Line(1, None, b"\0" * 15)]
    packed = zlib.compress(b"\0" * 10_000_001, level=9, wbits=31)
    with pytest.raises(BatchCompressionError, match="more than 2 bytes for each"):
        list(read_lines([packed], limits))
