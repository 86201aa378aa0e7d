"""Sample books of invented accounts: any range of them, valid or broken in known ways."""

from collections.abc import Iterable, Iterator
from datetime import UTC, date, datetime
from random import Random
from typing import Any

import msgspec

from migration_service_local.samples.accounts import Book, make_account
from migration_service_local.samples.dates import make_calendar
from migration_service_local.samples.faults import FAULTS, break_account, choose_fault

__all__ = ["FAULTS", "break_account", "generate_accounts", "write_lines"]


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

    Raise ValueError for a negative seed, count or first, a share outside 0 to 1, or a day too far away.
    """
    if count < 0 or first < 0 or seed < 0:
        raise ValueError("The count, the first number and the seed must be 0 or more.")
    if not 0 <= broken_share <= 1:
        raise ValueError(f"The share of broken accounts is {broken_share}; it must be from 0 to 1.")
    book = Book(supplier, seed, make_calendar(today or datetime.now(UTC).date()))
    for index in range(first, first + count):
        account = make_account(book, index)
        yield _broken(book, index, account, broken_share) if broken_share else account


def _broken(book: Book, index: int, account: dict[str, Any], broken_share: float) -> dict[str, Any]:
    """Return the account with a fault, or as it is if it should be valid."""
    # The 1 keeps these numbers apart from those that made the account.
    rng = Random((1 << 192) | (book.seed << 64) | index)
    if rng.random() >= broken_share:
        return account
    return break_account(account, choose_fault(account, rng), rng)


def write_lines(accounts: Iterable[dict[str, Any]]) -> Iterator[bytes]:
    """Yield accounts as lines of NDJSON (UTF-8), each with its line feed."""
    encode = msgspec.json.Encoder().encode
    for account in accounts:
        yield encode(account) + b"\n"
