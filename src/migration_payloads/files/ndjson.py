"""Reading NDJSON, plain or gzip, in constant memory, as lines with their numbers in the file."""

import sys
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from io import BufferedReader, RawIOBase
from typing import IO, Any

import msgspec

from migration_payloads import errors
from migration_payloads.schemas.json import without_marks

_READ = 1 << 16
#: Bytes after decompression below which the ratio is not checked: small files of equal lines compress well.
RATIO_FREE = 10_000_000
_GZIP = b"\x1f\x8b"
#: Bytes kept of an overlong line: enough to recognise a whole file without line feeds.
_START = 1 << 16
#: Bytes around a line that do not count: a byte order mark, and CR and LF.
_AROUND = 5


# Making a frozen dataclass would take longer than reading its line.
class Line(msgspec.Struct, frozen=True):
    """A non-blank line. `number` is its position in the file, from 1 and including blank lines."""

    number: int
    #: The text without blanks and byte order marks around it, or None if it exceeds the limit.
    text: bytes | None
    #: The first bytes of a line without text.
    start: bytes = b""


@dataclass(frozen=True, slots=True)
class FileLimits:
    """Limits on a file: bytes in a line, and in all after decompression, and the number of lines."""

    line: int
    total: int
    lines: int = sys.maxsize
    #: Bytes after decompression for each byte sent.
    ratio: int = sys.maxsize


def read_blocks(stream: IO[bytes]) -> Iterator[bytes]:
    """Yield the contents of `stream` in blocks."""
    while block := stream.read(_READ):
        yield block


def read_lines(blocks: Iterable[bytes], limits: FileLimits) -> Iterator[Line]:
    """Yield the lines of a file that arrives in `blocks`, which may be gzip data, even of several members.

    Blank lines are left out. Byte order marks are ignored before any line, because joined files have them in
    the middle. The last line needs no line feed. An overlong line has no text and is never held in memory as
    a whole. Raise BatchFileError if gzip data is broken or ends early, and BatchFileTooLargeError,
    BatchTooManyLinesError or BatchCompressionError beyond `limits`.
    """
    read = BufferedReader(_Blocks(_decompress_within(blocks, limits)), _READ).readline
    number, most = 0, limits.line + _AROUND
    while text := read(most):
        number += 1
        is_too_long = len(text) == most and not text.endswith(b"\n")
        if is_too_long:
            while (rest := read(_READ)) and not rest.endswith(b"\n"):
                pass
        if number > limits.lines:
            raise errors.BatchTooManyLinesError(
                f"The file has more than {limits.lines:,} lines. Split it into several batches."
            )
        text = without_marks(text)
        if is_too_long or len(text) > limits.line:
            yield Line(number, None, text[:_START])
        elif text:
            yield Line(number, text)


class _Blocks(RawIOBase):
    """Blocks of bytes as a stream, so that its lines can be found by Python's own fast reader."""

    def __init__(self, blocks: Iterable[bytes]) -> None:
        self._blocks = filter(None, blocks)
        self._rest = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self._rest = self._rest or memoryview(next(self._blocks, b""))
        room = memoryview(buffer)
        size = min(len(room), len(self._rest))
        room[:size] = self._rest[:size]
        self._rest = self._rest[size:]
        return size


def _decompress_within(blocks: Iterable[bytes], limits: FileLimits) -> Iterator[bytes]:
    sent = unpacked = 0

    def counted() -> Iterator[bytes]:
        nonlocal sent
        for block in blocks:
            sent += len(block)
            yield block

    for block in _decompress(counted()):
        unpacked += len(block)
        if unpacked > limits.total:
            raise errors.BatchFileTooLargeError(
                f"The file has more than {limits.total:,} bytes after decompression. "
                "Split it into several batches."
            )
        if unpacked > max(RATIO_FREE, limits.ratio * sent):
            raise errors.BatchCompressionError(
                f"The gzip data holds more than {limits.ratio:,} bytes for each byte that was sent. "
                "Send the file uncompressed, or with a lower level of compression."
            )
        yield block


def _decompress(blocks: Iterable[bytes]) -> Iterator[bytes]:
    start = b""
    blocks = iter(blocks)
    while len(start) < len(_GZIP) and (block := next(blocks, b"")):
        start += block
    if start.startswith(_GZIP):
        yield from _gunzip(start, blocks)
    else:
        yield start
        yield from blocks


def _gunzip(data: bytes, blocks: Iterator[bytes]) -> Iterator[bytes]:
    """Yield decompressed blocks of limited size, however much a compressed block expands."""
    member = zlib.decompressobj(zlib.MAX_WBITS | 16)
    try:
        while data or (data := next(blocks, b"")):
            if member.eof:
                if not (data := data.lstrip(b"\0")):  # padding added by tape and block devices
                    continue
                member = zlib.decompressobj(zlib.MAX_WBITS | 16)
            piece = member.decompress(data, _READ)
            data = member.unused_data if member.eof else member.unconsumed_tail
            if piece:
                yield piece
        while not member.eof and (piece := member.decompress(b"", _READ)):
            yield piece
    except zlib.error as error:
        raise errors.BatchFileError(f"The gzip data is corrupt: {error}.") from error
    if not member.eof:
        raise errors.BatchFileError("The gzip data is incomplete.")
