"""Sample books: any range of accounts, valid or broken in known ways."""

from collections.abc import Iterator
from datetime import UTC, date, datetime
from random import Random
from typing import Any

import msgspec

from migration_service_local.samples.accounts import Book, make_account, open_book
from migration_service_local.samples.faults import break_account, choose_fault


def generate_accounts(
    count: int,
    *,
    supplier: str,
    seed: int = 1,
    today: date | None = None,
    first: int = 0,
    broken_share: float = 0.0,
) -> Iterator[dict[str, Any]]:
    """Yield account payloads (section 2.3) `first` to `first + count - 1` of a book, ready for JSON.

    `seed` and `today` (by default the day in UTC) determine a book: account i is always the same, whatever
    `count` and `first` are. About `broken_share` (0 to 1) of the accounts have an error, and are not marked.

    Raise ValueError for a negative seed, count or first, or a share outside 0 to 1.
    """
    for account, _ in generate_accounts_with_faults(
        count, supplier=supplier, seed=seed, today=today, first=first, broken_share=broken_share
    ):
        yield account


def generate_accounts_with_faults(
    count: int,
    *,
    supplier: str,
    seed: int = 1,
    today: date | None = None,
    first: int = 0,
    broken_share: float = 0.03,
) -> Iterator[tuple[dict[str, Any], str | None]]:
    """Yield what `generate_accounts` yields, each with the name of its fault in `faults.FAULTS` or None."""
    if count < 0 or first < 0:
        raise ValueError("The count and the first number must be 0 or more.")
    if not 0 <= broken_share <= 1:
        raise ValueError(f"The share of broken accounts is {broken_share}; it must be from 0 to 1.")
    book = open_book(supplier, seed, today or datetime.now(UTC).date())
    for index in range(first, first + count):
        account = make_account(book, index)
        fault = _find_fault(book, index, account, broken_share) if broken_share else None
        yield fault or (account, None)


def _find_fault(
    book: Book, index: int, account: dict[str, Any], broken_share: float
) -> tuple[dict[str, Any], str] | None:
    """Return the broken account and its fault, or None if the account should be valid."""
    # The 1 keeps these numbers apart from those that made the account.
    rng = Random((1 << 192) | (book.seed << 64) | index)
    if rng.random() >= broken_share:
        return None
    fault = choose_fault(account, rng)
    return break_account(account, fault, rng), fault


def generate_lines(
    count: int,
    *,
    supplier: str,
    seed: int = 1,
    today: date | None = None,
    first: int = 0,
    broken_share: float = 0.0,
) -> Iterator[bytes]:
    """Yield the same accounts as lines of NDJSON (UTF-8), each with its line feed."""
    encode = msgspec.json.Encoder().encode
    for account in generate_accounts(
        count, supplier=supplier, seed=seed, today=today, first=first, broken_share=broken_share
    ):
        yield encode(account) + b"\n"
