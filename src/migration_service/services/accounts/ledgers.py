"""The ledgers of an account: choosing the one for an added transaction, and their open statement periods."""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from itertools import groupby
from typing import Any

from sqlalchemy import ARRAY, BigInteger, Numeric, bindparam, func, select, text
from sqlalchemy.orm import Session

from migration_payloads.rules.balances import signed_amount
from migration_service.db.base import one_of
from migration_service.models import Ledger, MeterPoint, SupplyAddress, Transaction
from migration_service.states import TransactionPeriod

#: The default ledger of an account.
ENERGY_LEDGER = "ENERGY_LEDGER"


@dataclass(frozen=True, slots=True)
class OpenPeriod:
    """The first and last day on which transactions can be added."""

    #: None if there was no settlement yet, so that any day in the past is open.
    first: date | None
    last: date

    def has(self, day: date) -> bool:
        """Return whether `day` is open."""
        return day <= self.last and (self.first is None or day >= self.first)

    def nearest(self, day: date) -> date:
        """Return `day` if it is open, otherwise the open day nearest to it."""
        return min(max(day, self.first or day), self.last)

    def __str__(self) -> str:
        return f"{self.first} to {self.last}" if self.first else f"all days until {self.last}"


def open_period(last_settlement_closing_date: date | None, today: date) -> OpenPeriod:
    """Return the period from the day after the last settlement's closing date until today.

    If the settlement closes today or later, the only open day is the day after it.
    """
    if last_settlement_closing_date is None:
        return OpenPeriod(None, today)
    first = last_settlement_closing_date + timedelta(days=1)
    return OpenPeriod(first, max(first, today))


class Ledgers:
    """The ledgers of a locked account, with additions for `save_ledgers` to write."""

    def __init__(
        self, rows: Sequence[Any], supply_types: dict[str, int], positions: Counter[int], today: date
    ) -> None:
        self._rows = rows
        self._periods = {row.id: open_period(row.last_settlement_closing_date, today) for row in rows}
        self._by_supply_type = supply_types
        self._positions = positions
        #: The change in the balance of each ledger.
        self.changes: dict[int, Decimal] = {}

    def choose(self, transaction: dict[str, Any]) -> int:
        """Return the key of the ledger for a transaction, which does not name its ledger.

        If the account has several, it is the ledger whose meter points have the transaction's supply_type, or
        else the ENERGY_LEDGER, or else the first.
        """
        of_its_type = self._by_supply_type.get(transaction.get("supply_type", ""))
        if of_its_type is not None:
            return of_its_type
        energy = (row.id for row in self._rows if row.ledger_code == ENERGY_LEDGER)
        return int(next(energy, self._rows[0].id))

    def period(self, ledger_pk: int) -> OpenPeriod:
        """Return the open statement period of a ledger."""
        return self._periods[ledger_pk]

    def add(self, ledger_pk: int, transaction: dict[str, Any]) -> int:
        """Add a transaction to the balance. Return its position among those added to the ledger."""
        self.changes[ledger_pk] = self.changes.get(ledger_pk, Decimal(0)) + signed_amount(transaction)
        self._positions[ledger_pk] += 1
        return self._positions[ledger_pk] - 1


def read_ledgers(session: Session, account_pks: Collection[int], today: date) -> dict[int, Ledgers]:
    """Return the ledgers of each of these accounts, by the account's key."""
    rows = session.execute(
        select(
            Ledger.account_pk,
            Ledger.id,
            Ledger.ledger_code,
            Ledger.identifiers,
            Ledger.last_settlement_closing_date,
        )
        .where(one_of(Ledger.account_pk.expression, account_pks))
        .order_by(Ledger.account_pk, Ledger.position)
    )
    of_account = {key: list(own) for key, own in groupby(rows, key=lambda row: row.account_pk)}
    several = {key: own for key, own in of_account.items() if len(own) > 1}
    supply_types = _find_supply_types(session, several) if several else {}
    positions = _count_added(session, account_pks)
    return {key: Ledgers(own, supply_types.get(key, {}), positions, today) for key, own in of_account.items()}


def save_ledgers(session: Session, ledgers: Iterable[Ledgers]) -> None:
    """Add the changes to the balances in the database. NUMERIC adds exactly."""
    changes = sorted(change for own in ledgers for change in own.changes.items())
    keys, amounts = [key for key, _ in changes], [amount for _, amount in changes]
    session.execute(_SAVE, {"keys": keys, "amounts": amounts})


def _find_supply_types(session: Session, ledgers: dict[int, list[Any]]) -> dict[int, dict[str, int]]:
    """Return, for each account with several ledgers, the first ledger of each supply type."""
    meter_points = session.execute(
        select(SupplyAddress.account_pk, MeterPoint.ean, MeterPoint.supply_type)
        .join(SupplyAddress, SupplyAddress.id == MeterPoint.supply_address_pk)
        .where(one_of(SupplyAddress.account_pk.expression, ledgers))
    )
    supply_types: dict[tuple[int, str], list[str]] = {}
    for row in meter_points:
        supply_types.setdefault((row.account_pk, row.ean), []).append(row.supply_type)
    found: dict[int, dict[str, int]] = {}
    for account_pk, rows in ledgers.items():
        of_type = found.setdefault(account_pk, {})
        for row in rows:
            for ean in row.identifiers or ():
                for supply_type in supply_types.get((account_pk, ean), ()):
                    of_type.setdefault(supply_type, row.id)
    return found


def _count_added(session: Session, account_pks: Collection[int]) -> Counter[int]:
    counted = session.execute(
        # Not their number, because some may have been taken back.
        select(Transaction.ledger_pk, func.max(Transaction.position) + 1)
        .where(
            one_of(Transaction.account_pk.expression, account_pks),
            Transaction.period == TransactionPeriod.ADDED,
        )
        .group_by(Transaction.ledger_pk)
    )
    return Counter({row.ledger_pk: int(row[1] or 0) for row in counted})


_SAVE = text("""
    UPDATE ledger SET ledger_balance = ledger_balance + change.amount
    FROM unnest(:keys, :amounts) AS change (id, amount) WHERE ledger.id = change.id
""").bindparams(bindparam("keys", type_=ARRAY(BigInteger)), bindparam("amounts", type_=ARRAY(Numeric)))
