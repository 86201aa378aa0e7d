"""Files of lines: their forms, their account numbers, and what a check of one finds."""

import gzip
import signal
import zlib
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from migration_payloads.files.ndjson import FileLimits, Line, read_lines
from migration_payloads.files.processes import map_in_processes
from migration_payloads.profile import Profile
from migration_payloads.schemas.json import without_marks
from migration_service import errors
from migration_service_client.command import check as offline_check
from migration_service_client.command.check import Summary, check_lines
from migration_service_local.samples import generate_accounts

_LIMITS = FileLimits(line=1_000, total=100_000)


def _blocks(data: bytes, size: int) -> Iterator[bytes]:
    for start in range(0, len(data), size):
        yield data[start : start + size]


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
    with pytest.raises(errors.BatchFileError, match="incomplete"):
        list(read_lines([packed[:-cut]], _LIMITS))


def test_broken_gzip_data_is_an_error() -> None:
    packed = bytearray(gzip.compress(b"a\nb\n" * 100))
    packed[-6] ^= 1
    with pytest.raises(errors.BatchFileError, match="corrupt"):
        list(read_lines([bytes(packed)], _LIMITS))


def test_padding_after_gzip_data_is_ignored_and_garbage_is_an_error() -> None:
    packed = gzip.compress(b"a\n")
    assert list(read_lines([packed + b"\0" * 600], _LIMITS)) == [Line(1, b"a")]
    with pytest.raises(errors.BatchFileError, match="corrupt"):
        list(read_lines([packed + b"more"], _LIMITS))


def test_a_small_file_that_grows_beyond_the_limit_is_refused_before_it_fills_the_memory() -> None:
    bomb = zlib.compress(b"\0" * 50_000_000, level=9, wbits=31)
    assert len(bomb) < 50_000
    with pytest.raises(errors.BatchFileTooLargeError):
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
        with pytest.raises(errors.BatchFileTooLargeError, match="more than 11 bytes"):
            list(read_lines(_blocks(data + b"c", size), limits))
        for more in (b"a\n\nb\nc\nd", b"a\n\nb\nc\nd\n", b"\n\n\n\n\n"):
            with pytest.raises(errors.BatchTooManyLinesError, match="more than 4 lines"):
                list(read_lines(_blocks(more, size), limits))
        assert len(list(read_lines(_blocks(b"a\nb\nc\nd\n", size), limits))) == 4


def test_gzip_data_may_hold_ten_million_bytes_whatever_their_ratio_is() -> None:
    limits = FileLimits(line=10, total=100_000_000, ratio=2)
    packed = zlib.compress(b"\0" * 10_000_000, level=9, wbits=31)
    assert list(read_lines([packed], limits)) == [Line(1, None, b"\0" * 15)]
    packed = zlib.compress(b"\0" * 10_000_001, level=9, wbits=31)
    with pytest.raises(errors.BatchCompressionError, match="more than 2 bytes for each"):
        list(read_lines([packed], limits))


_ACCOUNTS = list(generate_accounts(6, supplier="S"))
_NUMBERS = [account["external_account_number"] for account in _ACCOUNTS]


def _lines(*payloads: Any) -> Iterator[Line]:
    for number, payload in enumerate(payloads, 1):
        is_raw = payload is None or isinstance(payload, bytes)
        yield Line(number, payload if is_raw else msgspec.json.encode(payload))


def _check(*payloads: Any, processes: int = 1, **options: Any) -> Summary:
    total = Summary()
    options = {"read_again": lambda: _lines(*payloads)} | options
    for part in check_lines(_lines(*payloads), Profile.LENIENT, processes=processes, **options):
        total.add(part)
    return total


@pytest.mark.parametrize("processes", [1, 2])
@pytest.mark.parametrize("block", [1, 2, 200])
def test_neither_blocks_nor_processes_change_what_is_found(
    monkeypatch: pytest.MonkeyPatch, processes: int, block: int
) -> None:
    """What it is is on `tests/transcripts/client/check.md`. Three examples of each are shown."""
    bad = {"billing_postcode": "0511 AB", "customers": [{}, {}]}
    payloads = [_ACCOUNTS[0], None, b"{", *(account | bad for account in _ACCOUNTS[1:5]), _ACCOUNTS[0], {}]
    payloads += [b"[]", {}, None, _ACCOUNTS[5], _ACCOUNTS[0] | {"billing_postcode": "1011 AB"}]
    expected = _check(*payloads)
    assert [it.line_number for it in expected.examples["customer_family_name_required"]] == [4, 4, 5]
    assert (expected.errors["line_too_long"], expected.errors["duplicate_line_in_batch"]) == (2, 2)
    monkeypatch.setattr(offline_check, "BLOCK", block)
    assert _check(*payloads, processes=processes) == expected


@pytest.mark.parametrize("processes", [1, 2])
def test_repeated_lines_are_compared_by_what_they_say(processes: int) -> None:
    """They are not read again if no text differs."""
    first, second, third = _ACCOUNTS[:3]
    payloads = [
        *(first, second, third, dict(reversed(first.items())), second, third | {"billing_address1": "A"}),
        *({"external_account_number": "1", "customers": it} for it in ([1], [1.0], [2])),
    ]
    found = _check(*payloads, processes=processes)
    assert found.errors["duplicate_line_in_batch"] == 5
    assert found.errors["conflicting_lines_in_batch"] == 2
    examples = found.examples["conflicting_lines_in_batch"]
    assert [(it.line_number, it.external_account_number) for it in examples] == [(6, _NUMBERS[2]), (9, "1")]
    same = [first, second, first]
    assert _check(*same, read_again=lambda: pytest.fail("read again")).errors == {
        "duplicate_line_in_batch": 1
    }


def test_processes_leave_ctrl_c_to_their_parent() -> None:
    handlers = map_in_processes(signal.getsignal, [signal.SIGINT] * 3, 2)
    assert list(handlers) == [signal.SIG_IGN] * 3
