"""Totals of a file of accounts: accounts, ledger balances, transactions and statements.

Every readable line counts, even one that is refused later. The sums are exact. Unreadable lines and amounts
are counted. If a key occurs twice in an object, its last value counts.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Clamped, Context, Decimal, Inexact, InvalidOperation, Overflow, Subnormal
from typing import Any

import msgspec

from migration_payloads.errors import ParseError
from migration_payloads.schemas.json import parse_json
from migration_payloads.schemas.vocabulary import TransactionType

#: The largest number of ledger codes with their own sums. Further codes count as unreadable.
_MOST_CODES = 100
_LONGEST_CODE = 128
#: Larger than any amount of the interface.
_TOO_LARGE = Decimal(10) ** 15
_PERIODS = ("transactions_in_open_settlement_period", "historical_statement_transactions")
_TYPES = frozenset(kind.value for kind in TransactionType)
_add = Context(
    prec=60, Emax=60, Emin=-60, traps=[Clamped, Inexact, InvalidOperation, Overflow, Subnormal]
).add
_NOTHING, _NOT_A_NUMBER = Decimal(0), Decimal("NaN")


class _Transaction(msgspec.Struct):
    type: str
    amount: Decimal


class _Ledger(msgspec.Struct):
    ledger_code: str
    ledger_balance: Decimal
    transactions_in_open_settlement_period: list[_Transaction] = []
    historical_statement_transactions: list[_Transaction] = []


class _Statement(msgspec.Struct):
    pass


class _Account(msgspec.Struct):
    """The members of a line that are added up. The decoder skips everything else."""

    ledgers: list[_Ledger] = []
    statements: list[_Statement] = []


_decode: Callable[[bytes], _Account] = msgspec.json.Decoder(_Account).decode


@dataclass(slots=True)
class FileTotals:
    """The sums over some lines. Amounts are in euros."""

    accounts: int = 0
    statements: int = 0
    #: The balances by ledger code, and the transactions by type.
    ledger_balances: dict[str, Decimal] = field(default_factory=dict)
    numbers: dict[str, int] = field(default_factory=dict)
    sums: dict[str, Decimal] = field(default_factory=dict)
    #: The number of unreadable values: lines that are too long or no JSON object, amounts that are no number
    #: or have no sum to go to, and values of the wrong type in place of a ledger, a transaction, a statement
    #: or a list.
    unreadable_lines: int = 0
    unreadable_amounts: int = 0

    def add_line(self, line: bytes | None) -> None:
        """Add a line as it was sent, or None if it was too long to keep."""
        self.accounts += 1
        try:
            account = _decode(line or b"")
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            self._add_what_is_readable(line)
            return
        self.statements += len(account.statements)
        for ledger in account.ledgers:
            self._add_balance(ledger.ledger_code, ledger.ledger_balance)
            for transaction in ledger.transactions_in_open_settlement_period:
                self._add_transaction(transaction.type, transaction.amount)
            for transaction in ledger.historical_statement_transactions:
                self._add_transaction(transaction.type, transaction.amount)

    def add(self, other: "FileTotals") -> None:
        """Add the totals of other lines."""
        self.accounts += other.accounts
        self.statements += other.statements
        self.unreadable_lines += other.unreadable_lines
        self.unreadable_amounts += other.unreadable_amounts
        for code, balance in other.ledger_balances.items():
            self._add_balance(code, balance)
        for kind, amount in other.sums.items():
            self.numbers[kind] = self.numbers.get(kind, 0) + other.numbers[kind]
            self.sums[kind] = _add(self.sums.get(kind, _NOTHING), amount)

    def to_dict(self) -> dict[str, Any]:
        """Return the totals in the form of control totals, and the number of unreadable values."""
        return self.control_totals() | {
            "unreadable_lines": self.unreadable_lines,
            "unreadable_amounts": self.unreadable_amounts,
        }

    def control_totals(self) -> dict[str, Any]:
        """Return the totals in the form in which a supplier sends them with a batch."""
        balances, sums = sorted(self.ledger_balances.items()), sorted(self.sums.items())
        return {
            "accounts": self.accounts,
            "ledger_balances": {code: format(sum_, "f") for code, sum_ in balances},
            "transactions": {
                kind: {"count": self.numbers[kind], "sum": format(sum_, "f")} for kind, sum_ in sums
            },
            "statements": self.statements,
        }

    def _add_what_is_readable(self, line: bytes | None) -> None:
        try:
            account = parse_json(line or b"")
        except ParseError:
            account = None
        if not isinstance(account, dict):
            self.unreadable_lines += 1
            return
        self.statements += sum(1 for _ in self._objects(account.get("statements")))
        for ledger in self._objects(account.get("ledgers")):
            self._add_balance(ledger.get("ledger_code"), _number(ledger.get("ledger_balance")))
            for period in _PERIODS:
                for it in self._objects(ledger.get(period)):
                    self._add_transaction(str(it.get("type")), _number(it.get("amount")))

    def _objects(self, value: Any) -> Iterator[dict[str, Any]]:
        """Yield the objects of a list, and count other values as unreadable."""
        for it in value if isinstance(value, list) else () if value is None else (value,):
            if isinstance(value, list) and isinstance(it, dict):
                yield it
            else:
                self.unreadable_amounts += 1

    def _add_balance(self, code: Any, balance: Decimal) -> None:
        try:
            if -_TOO_LARGE < balance < _TOO_LARGE and self._has_place(code):
                self.ledger_balances[code] = _add(self.ledger_balances.get(code, _NOTHING), balance)
                return
        except ArithmeticError:  # NaN, or more digits than any amount has
            pass
        self.unreadable_amounts += 1

    def _has_place(self, code: Any) -> bool:
        if not isinstance(code, str):
            return False
        return code in self.ledger_balances or (is_code(code) and len(self.ledger_balances) < _MOST_CODES)

    def _add_transaction(self, kind: str, amount: Decimal) -> None:
        try:
            if kind in _TYPES and -_TOO_LARGE < amount < _TOO_LARGE:
                self.sums[kind] = _add(self.sums.get(kind, _NOTHING), amount)
                self.numbers[kind] = self.numbers.get(kind, 0) + 1
                return
        except ArithmeticError:
            pass
        self.unreadable_amounts += 1


def is_code(code: str) -> bool:
    """Return whether the balances of ledgers with this code are added up."""
    return len(code) <= _LONGEST_CODE and code.isprintable()


def add_up(lines: Iterable[bytes | None]) -> FileTotals:
    """Return the totals of these lines."""
    totals = FileTotals()
    for line in lines:
        totals.add_line(line)
    return totals


def describe_unreadable(lines: int, amounts: int) -> str:
    """Return how much could not be read, in words. Empty if everything could be read."""
    if not lines and not amounts:
        return ""
    words = ("line" if lines == 1 else "lines", "amount" if amounts == 1 else "amounts")
    return f"{lines} {words[0]} and {amounts} {words[1]} could not be read"


def list_measures(totals: Mapping[str, Any]) -> dict[str, Decimal]:
    """Return each total of `to_dict`, as far as it is present, by its name in reconciliation."""
    measures: dict[str, Decimal] = {}
    if "accounts" in totals:
        measures["accounts"] = Decimal(totals["accounts"])
    for code, balance in totals.get("ledger_balances", {}).items():
        measures[f"balance of {code}"] = Decimal(balance)
    for kind, found in totals.get("transactions", {}).items():
        measures[f"number of {kind}"] = Decimal(found["count"])
        measures[f"amount of {kind}"] = Decimal(found["sum"])
    if "statements" in totals:
        measures["statements"] = Decimal(totals["statements"])
    return measures


def _number(value: Any) -> Decimal:
    """Return a number or numeric string as a Decimal, and NaN for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | str | Decimal):
        return _NOT_A_NUMBER
    try:
        return Decimal(value)
    except (ArithmeticError, ValueError):
        return _NOT_A_NUMBER
