"""A file in another format is refused as a whole, but never one that is NDJSON with a broken first line."""

import bz2
import gzip

import pytest

from migration_payloads.files.formats import require_ndjson
from migration_payloads.files.ndjson import FileLimits, read_lines
from migration_service.errors import BatchFileError, BatchFileFormatError

_BOOK = b'{"a": 1}\n{"b": 2}\n'
_LIMITS = FileLimits(line=100, total=100_000)


@pytest.mark.parametrize(
    ("data", "format_name"),
    [
        (b'[{"a": 1}, {"b": 2}]', "a JSON array"),
        (b'\xef\xbb\xbf\n [\n  {\n    "a": 1\n  }\n]\n', "a JSON array"),
        (b'[{"a": 1},\n{"b": 2}\n]', "a JSON array"),
        (b'[{"a": 1}]\n[{"b": 2}]\n', "a JSON array"),
        (b'{\r\n  "a": {\r\n    "b": 1\r\n  }\r\n}\r\n', "JSON that is spread over several lines"),
        (b'{"a": 1,\n "b": 2}\n{"a": 3,\n "b": 4}', "JSON that is spread over several lines"),
        (b"number;name\n1;Anna\n2;Bert\n", "a CSV file"),
        (b'"number","name"\n"1","Anna"\n', "a CSV file"),
        (_BOOK.decode().encode("utf-16"), "text in UTF-16. Save it as UTF-8"),
        (_BOOK.decode().encode("utf-16-le"), "text in UTF-16. Save it as UTF-8"),
        (b"PK\x03\x04\x14\0\x06\0\x08\0\n\n", "a ZIP archive or an Excel workbook"),
        (bz2.compress(_BOOK), "a file that was compressed with bzip2, and only gzip is unpacked"),
        (b"\x28\xb5\x2f\xfd\x24\x14", "a file that was compressed with zstd, and only gzip is unpacked"),
        (gzip.compress(gzip.compress(_BOOK, mtime=0), mtime=0), "a file that was compressed with gzip twice"),
        (b"%PDF-1.7\n%\xe2\xe3\n1 0 obj\n", "a PDF document"),
        (b"<!DOCTYPE html>\n<html>\n<head>\n", "HTML or XML"),
        (b"PAR1\x15\x04\x15\0{}", "binary data"),
        (_BOOK.replace(b"\n", b"\r"), "text whose lines end in CR. End them in LF"),
    ],
)
@pytest.mark.parametrize("pack", [lambda data: data, gzip.compress])
def test_a_file_in_another_format_is_refused_by_name(data, format_name, pack) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(BatchFileFormatError, match=f"This looks like {format_name}. Send one JSON object"):
        require_ndjson(read_lines([pack(data)], _LIMITS))


@pytest.mark.parametrize(
    "data",
    [
        b'{"a": 1}\n[\n"x"\n1;2\n',
        b'[{"a": 1}\n{"b": 2}',
        b'"a": 1, "b": 2}\n{"b": 2}',
        b'{"a": 1\n{"b": 2\n{"c": 3\n',
        b'{"a": 1',
        b'{"a": NaN}',
        b'{"a": "\xff"}\n',
        b"1;2\n{}",
        b"<<<<<<< HEAD\n{}\n",
        b"\0\0\0\n{}\n",
        b'{"a": "' + b"x" * 200 + b'"}\n{}\n',
    ],
)
def test_broken_lines_do_not_make_a_book_another_format(data: bytes) -> None:
    lines = list(require_ndjson(read_lines([data], _LIMITS)))
    assert lines == list(read_lines([data], _LIMITS))


def test_a_file_without_lines_is_refused() -> None:
    with pytest.raises(BatchFileError, match="no lines"):
        require_ndjson(read_lines([b" \n\n"], _LIMITS))
