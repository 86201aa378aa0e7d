"""Telling NDJSON from other formats by the first lines of a file."""

import re
from collections.abc import Iterable, Iterator
from itertools import chain, islice

import msgspec

from migration_payloads.errors import BatchFileError, BatchFileFormatError
from migration_payloads.files.ndjson import Line

#: The number of lines to examine, unless an earlier one is a JSON object.
_FIRST = 3
_SEND = "Send one JSON object on each line (NDJSON)."
_ARRAY = f"This looks like a JSON array. {_SEND}"
_SEPARATOR = re.compile(rb"[,;\t|]")
_BRACE = re.compile(rb"[{}]")
#: The first characters of other formats, in the order in which they are tried.
_BEGINNINGS = {
    rb"\xff\xfe|\xfe\xff|\0+[{\[\"]|[{\[\"]\0": "text in UTF-16. Save it as UTF-8",
    rb"PK\x03\x04": "a ZIP archive or an Excel workbook",
    rb"\x1f\x8b": "a file that was compressed with gzip twice",
    rb"BZh\d": "a file that was compressed with bzip2, and only gzip is unpacked",
    rb"\x28\xb5\x2f\xfd": "a file that was compressed with zstd, and only gzip is unpacked",
    rb"\xfd7zXZ": "a file that was compressed with xz, and only gzip is unpacked",
    rb"%PDF-": "a PDF document",
    rb"<": "HTML or XML",
    rb"(?s:.*)\0": "binary data",
    rb"(?s:.*)\}\r+\{": "text whose lines end in CR. End them in LF",
}


def require_ndjson(lines: Iterable[Line]) -> Iterator[Line]:
    """Return all of `lines`, after examining the first ones.

    Raise BatchFileFormatError if the file is a JSON array, a JSON document over several lines, CSV, or a
    format in `_BEGINNINGS`, and BatchFileError if it is a single JSON string or has no lines. A file with a
    JSON object in its first lines counts as NDJSON: errors in other lines are reported line by line.
    """
    rest = iter(lines)
    first: list[Line] = []
    for line in islice(rest, _FIRST):
        first.append(line)
        if line.text is not None and _is_object(line.text):
            break
    texts = [line.start if line.text is None else line.text for line in first]
    if not texts:
        raise BatchFileError("The file has no lines.")
    # `[` alone and `[{...},` start an array, rather than being a faulty line.
    opens_array = texts[0].startswith(b"[") and texts[0].endswith(b",") and _is_object(texts[0][1:-1])
    if opens_array or texts[0] == b"[":
        raise BatchFileFormatError(_ARRAY)
    if not _is_object(texts[-1]):
        _refuse_other_formats(texts)
    return chain(first, rest)


def _refuse_other_formats(first: list[bytes]) -> None:
    for beginning, name in _BEGINNINGS.items():
        if re.match(beginning, first[0]):
            raise BatchFileFormatError(f"This looks like {name}. {_SEND}")
    if first[0].startswith(b'"') and not _is_csv(first):
        # A client that encodes every body as JSON sends the whole file as one string.
        raise BatchFileError(
            "The file is one JSON string. Send its bytes as they are: one JSON object on each line."
        )
    if first[0].startswith(b"["):
        raise BatchFileFormatError(_ARRAY)
    if first[0].startswith(b"{") and first[1:] and first[1].startswith(b'"'):
        raise BatchFileFormatError(f"This looks like JSON that is spread over several lines. {_SEND}")
    if _is_csv(first):
        raise BatchFileFormatError(f"This looks like a CSV file. {_SEND}")


def _is_csv(first: list[bytes]) -> bool:
    return all(_SEPARATOR.search(text) and not _BRACE.search(text) for text in first)


def _is_object(text: bytes) -> bool:
    try:
        return isinstance(msgspec.json.decode(text), dict)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
