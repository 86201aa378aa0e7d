"""Books are the same for the same seed, in any range and with any number of workers."""

import gzip
import hashlib
import json
from datetime import date
from typing import Any

import pytest

from migration_service_local.samples import (
    FAULTS,
    generate_accounts,
    generate_accounts_with_faults,
    generate_lines,
)
from migration_service_local.samples.parallel import ACCOUNTS_A_CHUNK, BookOrder, generate_chunks

TODAY = date(2026, 3, 15)


def test_another_seed_gives_other_numbers_and_eans() -> None:
    one, other = (list(generate_lines(300, supplier="NORTHSTAR", seed=seed, today=TODAY)) for seed in (1, 2))
    assert not set(one) & set(other)


def test_an_account_does_not_depend_on_the_range_it_is_made_in() -> None:
    whole = list(generate_accounts(30, supplier="NORTHSTAR", today=TODAY, broken_share=0.5))
    part = list(generate_accounts(10, supplier="NORTHSTAR", today=TODAY, first=12, broken_share=0.5))
    assert part == whole[12:22]


def test_without_a_day_the_book_is_of_today() -> None:
    account = next(generate_accounts(1, supplier="NORTHSTAR"))
    assert account["import_supplier"] == "NORTHSTAR"


def test_lines_are_the_accounts_as_json() -> None:
    lines = list(generate_lines(20, supplier="NORTHSTAR", today=TODAY))
    assert all(line.endswith(b"}\n") for line in lines)
    assert [json.loads(line) for line in lines] == list(
        generate_accounts(20, supplier="NORTHSTAR", today=TODAY)
    )


def test_the_books_of_known_seeds_have_not_changed() -> None:
    """Tests and benchmarks rely on seeds, so a change of the books should be intended."""
    lines = b"".join(generate_lines(200, supplier="NORTHSTAR", seed=1, today=TODAY, broken_share=0.1))
    assert (
        hashlib.sha256(lines).hexdigest()
        == "6705e076e54b5b44db9735c19c2bb664beb1643503cb5e42f97132e05a2a92f0"
    )


@pytest.mark.parametrize(
    "arguments",
    [{"count": -1}, {"count": 1, "first": -1}, {"count": 1, "seed": -1}, {"count": 1, "broken_share": 1.5}],
)
def test_invalid_books_are_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="must be"):
        next(generate_accounts(**arguments, supplier="NORTHSTAR"))


def test_the_broken_share_is_as_requested_and_broken_accounts_are_not_marked() -> None:
    sound = list(generate_accounts(2_000, supplier="NORTHSTAR", today=TODAY))
    pairs = list(generate_accounts_with_faults(2_000, supplier="NORTHSTAR", today=TODAY, broken_share=0.03))
    broken = [(index, fault) for index, (_, fault) in enumerate(pairs) if fault]
    assert 40 <= len(broken) <= 80
    assert {fault for _, fault in broken} <= FAULTS.keys()
    for index, (account, fault) in enumerate(pairs):
        assert (account == sound[index]) == (fault is None)
        assert account.keys() <= sound[index].keys()
    hidden = generate_accounts(2_000, supplier="NORTHSTAR", today=TODAY, broken_share=0.03)
    assert list(hidden) == [account for account, _ in pairs]


@pytest.mark.parametrize("compress", [False, True], ids=["plain", "gzip"])
@pytest.mark.parametrize("workers", [1, 3])
def test_chunks_are_the_lines_in_order_whatever_the_number_of_workers(workers: int, compress: bool) -> None:
    count = 2 * ACCOUNTS_A_CHUNK + 7
    order = BookOrder(count, "NORTHSTAR", 1, TODAY, compress=compress)
    chunks = list(generate_chunks(order, workers))
    data = b"".join(chunk for _, chunk in chunks)
    assert sum(accounts for accounts, _ in chunks) == count
    expected = b"".join(generate_lines(count, supplier="NORTHSTAR", today=TODAY))
    assert (gzip.decompress(data) if compress else data) == expected


def test_an_empty_book_has_no_chunks() -> None:
    assert list(generate_chunks(BookOrder(0, "NORTHSTAR", 1, TODAY))) == []


def test_payloads_are_of_about_8_kilobytes() -> None:
    sizes = sorted(map(len, generate_lines(2_000, supplier="NORTHSTAR", today=TODAY)))
    assert 7_000 < sizes[1_000] < 10_000
    assert 8_000 < sum(sizes) / len(sizes) < 11_000
