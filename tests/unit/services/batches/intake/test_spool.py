"""A file on disk before the database sees it: what is counted, hashed and refused, and the room for it."""

import errno
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock, patch

import pytest

from migration_payloads.files.ndjson import FileLimits, Line
from migration_service.errors import BatchFileError, UploadStorageFullError
from migration_service.services.batches.intake import spool as spool_module
from migration_service.services.batches.intake.spool import has_room, spool

_LIMITS = FileLimits(line=20, total=100_000_000)


def _hash(*blocks: bytes, identity: bytes = b"i") -> bytes:
    with spool(blocks, _LIMITS, identity=identity) as lines:
        return lines.sha256


def test_lines_are_counted_with_their_rows_and_can_be_read_again() -> None:
    blocks = [b'{}\n\n{"a"', b":1}\n" + b"x" * 21 + b"\n"]
    with spool(blocks, _LIMITS, identity=b"") as lines:
        assert (lines.count, lines.stored_bytes) == (3, 3 * 200 + 2 + 7)
        for _ in range(2):
            assert list(lines) == [Line(1, b"{}"), Line(3, b'{"a":1}'), Line(4, None, b"x" * 21)]


def test_the_hash_is_that_of_the_lines_and_of_what_is_asked_for() -> None:
    same = {_hash(b"{}\n[]\n"), _hash(b"{}", b"\n[]")}
    others = {
        _hash(b"{}\n[]", identity=b"j"),
        _hash(b"{}\n\n[]"),
        _hash(b"{}\n[1]"),
        _hash(b"{}\n" + b"x" * 21),
        _hash(b"{}"),
    }
    assert len(same) == 1
    assert len(others - same) == 5


@pytest.mark.parametrize("blocks", [[], [b""], [b"\n", b" \n"]])
def test_a_file_without_lines_is_refused(blocks: list[bytes]) -> None:
    with pytest.raises(BatchFileError, match="no lines"), spool(blocks, _LIMITS, identity=b""):
        pass


def test_a_file_that_is_one_json_string_is_refused_but_a_later_string_is_a_line() -> None:
    with pytest.raises(BatchFileError, match="one JSON string"), spool([b'\n"{}"'], _LIMITS, identity=b""):
        pass
    for first in (b"{}", b"x" * 21):
        with spool([first, b'\n"{}"'], _LIMITS, identity=b"") as lines:
            assert lines.count == 2


def test_the_file_is_in_the_given_folder(tmp_path: Path) -> None:
    missing = str(tmp_path / "missing")
    with (
        patch.object(spool_module, "has_room", return_value=True),
        pytest.raises(FileNotFoundError),
        spool([b"{}"], _LIMITS, identity=b"", folder=missing),
    ):
        pass


def test_a_file_is_refused_while_the_disk_has_no_room() -> None:
    with (
        patch.object(spool_module, "has_room", return_value=False),
        pytest.raises(UploadStorageFullError),
        spool([b"{}"], _LIMITS, identity=b""),
    ):
        pass


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        (errno.ENOSPC, UploadStorageFullError),
        (errno.EDQUOT, UploadStorageFullError),
        (errno.EFBIG, UploadStorageFullError),
        (errno.EIO, OSError),
    ],
)
def test_a_disk_that_is_full_while_the_file_is_written_is_no_failure(
    number: int, expected: type[Exception]
) -> None:
    file = Mock()
    file.write.side_effect = OSError(number, os.strerror(number))
    opened = Mock(__enter__=Mock(return_value=file), __exit__=Mock(return_value=None))
    with (
        patch.object(spool_module, "TemporaryFile", return_value=opened),
        pytest.raises(expected),
        spool([b"{}"], _LIMITS, identity=b""),
    ):
        pass


@pytest.mark.parametrize(("free", "expected"), [(4, False), (5, True), (100, True)])
def test_uploads_leave_a_twentieth_of_the_disk_free(tmp_path: Path, free: int, *, expected: bool) -> None:
    usage: Any = SimpleNamespace(total=100, free=free)
    with patch("shutil.disk_usage", return_value=usage) as asked:
        assert has_room(tmp_path) is expected
    asked.assert_called_once_with(tmp_path)
