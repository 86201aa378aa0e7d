"""The chunks of added data: all lines of an account are in one, and long files have more of them."""

from types import SimpleNamespace
from typing import Any

import pytest

from migration_payloads.files.ndjson import Line
from migration_service.services.batches.intake.ranges import AccountChunks


def _chunks(lines: int, stored_bytes: int = 0, chunk_lines: int = 100) -> AccountChunks:
    spooled: Any = SimpleNamespace(count=lines, stored_bytes=stored_bytes)
    return AccountChunks(spooled, chunk_lines)


def _add(chunks: AccountChunks, *numbers: str | None) -> list[int]:
    return [chunks.add(Line(i, b"{}"), number) for i, number in enumerate(numbers, 1)]


def test_a_short_file_is_one_chunk() -> None:
    chunks = _chunks(199)
    assert set(_add(chunks, *map(str, range(199)))) == {1}
    assert chunks.ranges == [(1, 199)]


@pytest.mark.parametrize(("lines", "stored_bytes"), [(200, 0), (10, 2_000_000), (200, 2_999_999)])
def test_a_longer_file_has_a_chunk_for_so_many_lines_or_bytes(lines: int, stored_bytes: int) -> None:
    chunks = _chunks(lines, stored_bytes)
    found = _add(chunks, *map(str, range(100)))
    assert len(set(found)) == len(chunks.ranges) == 2
    assert {first for first, _ in chunks.ranges} == set(found)
    assert {last for _, last in chunks.ranges} >= {100}


def test_all_lines_of_an_account_are_in_one_chunk() -> None:
    chunks = _chunks(1_000)
    found = _add(chunks, *["A", "B", "C", "D", "E", "F"] * 3)
    assert found[:6] == found[6:12] == found[12:]
    assert len(set(found)) > 1


def test_lines_without_an_account_are_in_any_chunk() -> None:
    """Otherwise those of a file that is not what it should be would all be in one."""
    assert len(set(_add(_chunks(1_000), *[None] * 100))) > 5
