"""A file in another format is refused as a whole, but never one that is NDJSON with a broken first line."""

import gzip

import pytest

from migration_service.errors import BatchFileError, BatchFileFormatError
from migration_service.services.batches.formats import require_ndjson
from migration_service.services.batches.ndjson import FileLimits, read_lines

_LIMITS = FileLimits(line=100, total=100_000)


@pytest.mark.parametrize(
    ("data", "format_name"),
    [
        (b'[{"a": 1}, {"b": 2}]', "a JSON array"),
        (b'\xef\xbb\xbf\n [\n  {\n    "a": 1\n  }\n]\n', "a JSON array"),
        (b'[{"a": 1},\n{"b": 2},\n{"c": 3}]', "a JSON array"),
        (b'[\n{"a": 1},\n{"b": 2}\n]', "a JSON array"),
        (b'[{"a": 1},\n{"b": 2}\n]', "a JSON array"),
        (b'[{"a": 1}' + b', {"b": 2}' * 50 + b"]", "a JSON array"),
        (b'[{"a": 1}]\n[{"b": 2}]\n', "a JSON array"),
        (b'{\r\n  "a": {\r\n    "b": 1\r\n  }\r\n}\r\n', "JSON that is spread over several lines"),
        (b'{"a": 1,\n "b": 2}\n{"a": 3,\n "b": 4}', "JSON that is spread over several lines"),
        (b"number;name\n1;Anna\n2;Bert\n", "a CSV file"),
        (b'"number","name"\n"1","Anna"\n', "a CSV file"),
        (b"number\tname", "a CSV file"),
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
        b'[{"a": 1}]\n{"b": 2}',
        b'"a": 1, "b": 2}\n{"b": 2}',
        b'{"a": 1\n{"b": 2\n{"c": 3\n',
        b'{"a": 1',
        b"{\n{}",
        b'{"a": NaN}',
        b'{"a": "\xff"}\n',
        b"1;2\n{}",
        b"nothing",
        b'{"a": "' + b"x" * 200 + b'"}\n{}\n',
    ],
)
def test_broken_lines_do_not_make_a_book_another_format(data: bytes) -> None:
    lines = list(require_ndjson(read_lines([data], _LIMITS)))
    assert lines == list(read_lines([data], _LIMITS))


def test_a_file_without_lines_is_refused() -> None:
    with pytest.raises(BatchFileError, match="no lines"):
        require_ndjson(read_lines([b" \n\n"], _LIMITS))
