"""Added data while its accounts are still being imported, and workers are killed at random meanwhile.

    python -m benchmarks.added_data_run --accounts 20000

Each account has ten transactions, two notes and a statement, one per line. One line in a hundred is broken in
a known way. At the end every line must have its outcome, the database every item once, and the reconciliation
every cent. The exit status is 0 if it is so.
"""

import json
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import click
from sqlalchemy import func, select, text

from benchmarks import probes
from benchmarks.bench import QUICK, Bench
from benchmarks.payloads import SUPPLIER, TEAM
from benchmarks.prepare import running_bench, say
from migration_service.models import Batch, BatchLine
from migration_service.services.batches.orders import BatchOrder
from migration_service.services.reporting.differences import Totals
from migration_service.services.reporting.reconciliation import find_differences
from migration_service.services.setup.suppliers import get_import_supplier
from migration_service.states import BatchKind, BatchMode, BatchState, LineStatus

_BROKEN = 0.01
#: Seconds between two kills.
_PEACE = (3.0, 8.0)

Line = dict[str, Any]


def _unknown_account(line: Line) -> Line:
    return line | {"external_account_number": f"nobody {line['external_account_number']}"}


def _other_supplier(line: Line) -> Line:
    return line | {"import_supplier": "SOMEBODY_ELSE"}


def _other_kind(line: Line) -> Line:
    head = {name: line[name] for name in ("import_supplier", "external_account_number")}
    return head | {"customers": [], "ledgers": []}


def _dry_run(line: Line) -> Line:
    return line | {"dry_run": True}


def _misspelt(line: Line) -> Line:
    return line | {"noets": []}


#: The ways in which a line is broken, by the code that it must fail with.
_WAYS: dict[str, Callable[[Line], Line]] = {
    "account_not_found": _unknown_account,
    "import_supplier_mismatch": _other_supplier,
    "line_kind_mismatch": _other_kind,
    "dry_run_in_line": _dry_run,
    "unknown_field": _misspelt,
}


class Book:
    """The lines of a batch, and what must become of them."""

    def __init__(self, kind: BatchKind, chance: random.Random) -> None:
        self.kind = kind
        self._chance = chance
        #: The code of each broken line, by its number.
        self.broken: dict[int, str] = {}
        self.lines = 0
        self.amount = Decimal(0)

    def write(self, path: Path, lines: Iterator[tuple[Line, Decimal]]) -> Path:
        """Write the lines to a file, some of them broken."""
        with path.open("w") as stream:
            for line, amount in lines:
                self.lines += 1
                if self._chance.random() < _BROKEN:
                    code = self._chance.choice(list(_WAYS))
                    self.broken[self.lines] = code
                    stream.write(json.dumps(_WAYS[code](line)) + "\n")
                else:
                    self.amount += amount
                    stream.write(json.dumps(line) + "\n")
        return path


def _lines(kind: BatchKind, first: int, accounts: int) -> Iterator[tuple[Line, Decimal]]:
    """Yield the lines of a kind. Each round has all accounts, so that the lines of one are everywhere."""
    rounds = {BatchKind.TRANSACTIONS: 10, BatchKind.NOTES: 2, BatchKind.STATEMENTS: 1}[kind]
    for turn in range(rounds):
        for number in range(first, first + accounts):
            head = {"import_supplier": SUPPLIER, "external_account_number": f"{number:08d}"}
            amount = Decimal(number * 10 + turn) / 100
            yield head | _item(kind, turn, amount), amount


def _item(kind: BatchKind, turn: int, amount: Decimal) -> Line:
    if kind is BatchKind.NOTES:
        return {"notes": [{"body": f"Called for the {turn + 1}. time."}]}
    if kind is BatchKind.STATEMENTS:
        return {
            "statements": [
                {
                    "bill_period_from_date": "2026-08-01",
                    "bill_period_to_date": "2026-08-31",
                    "statement_id": f"run-{turn}",
                    "issued_date": "2026-09-01",
                    "number": f"run-{turn}",
                    "gross_amount": int(amount * 100),
                }
            ]
        }
    return {
        "transactions": [
            {
                "transaction_id": f"run-{turn}",
                "transaction_date": "2026-10-01",
                "amount": str(amount),
                "type": "PAYMENT",
                "payment_type": "DIRECT_CREDIT",
            }
        ]
    }


@click.command()
@click.option("--accounts", default=20_000, show_default=True, help="Accounts of the book.")
@click.option("--seed", default=1, show_default=True, help="Which lines are broken, and who is killed when.")
def main(accounts: int, seed: int) -> None:
    """Import accounts and add data to them, while workers are killed."""
    chance = random.Random(seed)
    with running_bench(QUICK, 300) as bench:
        first = bench.take_numbers(accounts)
        batches = _start(bench, first, accounts, chance)
        started = time.monotonic()
        kills = _kill_until_over(bench, list(batches), chance)
        seconds = time.monotonic() - started
        faults = _check(bench, batches, accounts)
    lines = sum(book.lines for book in batches.values() if book)
    say(f"{accounts} accounts and {lines} lines in {seconds:.0f} s; killed: {dict(kills)}")
    for fault in faults:
        say(f"WRONG: {fault}")
    say("every line has its outcome, and every cent is there" if not faults else f"{len(faults)} faults")
    sys.exit(1 if faults else 0)


def _start(bench: Bench, first: int, accounts: int, chance: random.Random) -> dict[UUID, Book | None]:
    """Start the import of the accounts, and at once the batches of what is added to them."""
    file = bench.folder / "accounts.ndjson"
    file.write_text("\n".join(probes.lines_of(bench, first, accounts)) + "\n")
    order = BatchOrder(mode=BatchMode.IMPORT, operations_team_name=TEAM)
    batches: dict[UUID, Book | None] = {probes.start(bench, file, order): None}
    for kind in (BatchKind.TRANSACTIONS, BatchKind.NOTES, BatchKind.STATEMENTS):
        book = Book(kind, chance)
        file = book.write(bench.folder / f"{kind}.ndjson", _lines(kind, first, accounts))
        batches[probes.start(bench, file, BatchOrder(mode=BatchMode.IMPORT, kind=kind))] = book
        say(f"{book.lines} lines of {kind}, {len(book.broken)} of them broken")
    return batches


def _kill_until_over(bench: Bench, batches: list[UUID], chance: random.Random) -> Counter[str]:
    kills: Counter[str] = Counter()
    due = time.monotonic() + chance.uniform(*_PEACE)
    while True:
        with bench.sessions() as session:
            open_batches = session.scalars(
                select(Batch.id).where(Batch.id.in_(batches), Batch.state != BatchState.COMPLETED)
            ).all()
        if not open_batches:
            return kills
        if time.monotonic() > due:
            due = time.monotonic() + chance.uniform(*_PEACE)
            kills[_kill(bench, chance)] += 1
        time.sleep(0.2)


def _kill(bench: Bench, chance: random.Random) -> str:
    """Kill one child of the worker for batches, the whole worker, or beat. Return which."""
    victim = chance.choice(["a child of the batch worker", "the batch worker", "beat"])
    if victim == "a child of the batch worker":
        children = bench.stack.processes("batch")[1:]
        if children:
            chance.choice(children).kill()
    else:
        bench.stack.kill("beat" if victim == "beat" else "batch")
    return victim


def _check(bench: Bench, batches: dict[UUID, Book | None], accounts: int) -> list[str]:
    """Return what is not as it must be."""
    faults = []
    for batch_id, book in batches.items():
        if book is None:
            faults += _check_accounts(bench, batch_id, accounts)
        else:
            faults += _check_lines(bench, batch_id, book) + _check_sums(bench, batch_id, book)
    with bench.sessions() as session:
        twice = session.scalar(
            text("""
                SELECT count(*) FROM (
                    SELECT account_pk, transaction_id FROM "transaction" GROUP BY 1, 2 HAVING count(*) > 1
                    UNION ALL SELECT account_pk, body FROM note GROUP BY 1, 2 HAVING count(*) > 1) AS twice
            """)
        )
    return faults + ([f"{twice} items are there twice"] if twice else [])


def _check_accounts(bench: Bench, batch_id: UUID, accounts: int) -> list[str]:
    """Return whether a line of the import is not IMPORTED, or an account differs from what was sent."""
    own = select(BatchLine.status, func.count().label("lines")).where(BatchLine.batch_id == batch_id)
    with bench.sessions.begin() as session:
        found = {row.status: row.lines for row in session.execute(own.group_by(BatchLine.status))}
        supplier = get_import_supplier(session, SUPPLIER, organisation_id=None)
    faults = [] if found == {LineStatus.IMPORTED: accounts} else [f"accounts: {found}"]
    differing = find_differences(bench.sessions, supplier.id, Totals(), batch_id=batch_id)
    return faults + [f"account {account.external_account_number} differs" for account in differing]


def _check_lines(bench: Bench, batch_id: UUID, book: Book) -> list[str]:
    with bench.sessions() as session:
        rows = session.execute(
            select(BatchLine.line_number, BatchLine.status, BatchLine.errors).where(
                BatchLine.batch_id == batch_id
            )
        ).all()
    faults = [] if len(rows) == book.lines else [f"{book.kind}: {len(rows)} lines of {book.lines}"]
    for number, status, errors in rows:
        codes = [error["code"] for error in errors or ()]
        expected = [book.broken[number]] if number in book.broken else []
        if codes != expected or (status == LineStatus.ADDED) != (not expected):
            faults.append(f"{book.kind} line {number}: {status} with {codes}, expected {expected}")
    return faults


def _check_sums(bench: Bench, batch_id: UUID, book: Book) -> list[str]:
    totals = Totals()
    with bench.sessions.begin() as session:
        supplier = get_import_supplier(session, SUPPLIER, organisation_id=None)
    differing = list(find_differences(bench.sessions, supplier.id, totals, batch_id=batch_id))
    good = Decimal(book.lines - len(book.broken))
    expected = {f"added {book.kind}": good}
    if book.kind is BatchKind.TRANSACTIONS:
        expected["added amount of PAYMENT"] = book.amount
    if book.kind is BatchKind.STATEMENTS:
        expected["added gross_amount in cents"] = book.amount * 100
    found = totals.measures
    say(f"{book.kind}: {', '.join(f'{name} {created}' for name, (_, created) in found.items())}")
    faults = [f"{book.kind}: {account.external_account_number} differs" for account in differing]
    if found != {name: (value, value) for name, value in expected.items()}:
        faults.append(f"{book.kind}: the reconciliation has {found}, expected {expected}")
    return faults


if __name__ == "__main__":
    main()
