"""What a supplier delivers in a programme: a book, the same book some weeks later, and payments.

Run as a program, it writes the later files beside `book.ndjson.gz`, of which it breaks some lines.
"""

import csv
import gzip
import json
from collections.abc import Iterable
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

from migration_service_local.samples import generate_accounts

#: One account of so many has vanished; one of so many is refused in the first delivery, has changed, is new.
VANISHED, REFUSED, CHANGED, NEW = 250, 200, 100, 125
#: What each of the customers has paid.
PAID = Decimal("25.50")
BOOK, SECOND = "book.ndjson.gz", "second.ndjson.gz"
WRONG, RIGHT = "payments.ndjson", "corrected-payments.ndjson"


def deliver(folder: Path) -> None:
    """Break some lines of the book in the folder, and write what is delivered after it."""
    book = _read(folder / BOOK)
    code = book[0]["import_supplier"]
    vanished = {index for index in range(len(book)) if index % VANISHED == 11}
    changed = {index for index in range(len(book)) if index % CHANGED == 7}
    new = list(generate_accounts(len(book) // NEW, supplier=code, first=len(book)))
    later = [
        account | {"billing_address1": "Keizersgracht 1"} if index in changed else account
        for index, account in enumerate(book)
        if index not in vanished
    ]
    _write(folder / SECOND, [*later, *new])
    first = [
        account | {"unknown_occupier": "perhaps"} if index % REFUSED == 50 else account
        for index, account in enumerate(book)
    ]
    _write(folder / BOOK, first)
    # Of accounts that the second wave has created at the latest.
    numbers = sorted(account["external_account_number"] for account in book)[: len(book) // 4]
    kept = {account["external_account_number"] for account in later}
    refused = {it["external_account_number"] for it in first if it["unknown_occupier"] == "perhaps"}
    paid = [it for it in numbers[::10] if it in kept - refused]
    for name, amount in ((WRONG, 2 * PAID), (RIGHT, PAID)):
        _write(folder / name, [pay(code, number, amount) for number in paid])


def numbers_in(file: Path) -> set[str]:
    """Return the numbers of the accounts of a file."""
    return {it["external_account_number"] for it in _read(file)}


def read_new_numbers(file: Path) -> dict[str, str]:
    """Return the new number of each account by the old one, of a file that the service has written."""
    with file.open(newline="") as lines:
        return {it["external_account_number"]: it["service_account_number"] for it in csv.DictReader(lines)}


def pay(code: str, number: str, amount: Decimal) -> dict[str, Any]:
    """Return a line with a payment of a customer."""
    payment = {
        "transaction_id": f"week 12 {number}",
        "transaction_date": f"{datetime.now(UTC):%Y-%m-%d}",
        "amount": str(amount),
        "type": "PAYMENT",
        "payment_type": "CASH",
    }
    return {"import_supplier": code, "external_account_number": number, "transactions": [payment]}


def _read(file: Path) -> list[dict[str, Any]]:
    text = file.read_bytes()
    return [
        json.loads(line) for line in (gzip.decompress(text) if file.suffix == ".gz" else text).splitlines()
    ]


def _write(file: Path, items: Iterable[dict[str, Any]]) -> None:
    text = "".join(json.dumps(it) + "\n" for it in items).encode()
    file.write_bytes(gzip.compress(text) if file.suffix == ".gz" else text)


if __name__ == "__main__":
    deliver(Path.cwd())
