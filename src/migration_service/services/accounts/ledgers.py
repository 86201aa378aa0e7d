"""The ledgers of an account: which one an added transaction belongs to, and its open statement period."""

from collections import Counter
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from typing import Any

from sqlalchemy import func, select, update
from sqlalchemy.orm import Session

from migration_service.models import Ledger, MeterPoint, SupplyAddress, Transaction
from migration_service.rules.balances import signed_amount
from migration_service.states import TransactionPeriod

#: The ledger that every account has unless its payload says otherwise.
ENERGY_LEDGER = "ENERGY_LEDGER"


@dataclass(frozen=True, slots=True)
class OpenPeriod:
    """The days to which transactions can be added, both included."""

    #: None if there was no settlement yet: then any day of the past is open.
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
    """Return the period from the day after the last settlement closed until today.

    If the settlement closes today or later, the only open day is the day after it.
    """
    if last_settlement_closing_date is None:
        return OpenPeriod(None, today)
    first = last_settlement_closing_date + timedelta(days=1)
    return OpenPeriod(first, max(first, today))


class Ledgers:
    """The ledgers of a locked account, and what is added to them. Call `save` to write it."""

    def __init__(self, session: Session, account_pk: int, today: date) -> None:
        self._session = session
        self._rows = session.execute(
            select(Ledger.id, Ledger.ledger_code, Ledger.identifiers, Ledger.last_settlement_closing_date)
            .where(Ledger.account_pk == account_pk)
            .order_by(Ledger.position)
        ).all()
        self._periods = {row.id: open_period(row.last_settlement_closing_date, today) for row in self._rows}
        self._by_supply_type = self._find_supply_types(account_pk) if len(self._rows) > 1 else {}
        self._positions = self._count_added(account_pk)
        self._changes: dict[int, Decimal] = {}

    def choose(self, transaction: dict[str, Any]) -> int:
        """Return the key of the ledger that a transaction belongs to, because it does not name one itself.

        If the account has one ledger, it is that one. Otherwise it is the one whose meter points have the
        transaction's supply_type, or else the ENERGY_LEDGER, or else the first.
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
        """Add a transaction to the balance. Return its position among those that were added to the ledger."""
        self._changes[ledger_pk] = self._changes.get(ledger_pk, Decimal(0)) + signed_amount(transaction)
        self._positions[ledger_pk] += 1
        return self._positions[ledger_pk] - 1

    def save(self) -> None:
        """Change the balances in the database by what was added. NUMERIC adds exactly."""
        for ledger_pk, change in sorted(self._changes.items()):
            self._session.execute(
                update(Ledger)
                .where(Ledger.id == ledger_pk)
                .values(ledger_balance=Ledger.ledger_balance + change)
            )

    def _find_supply_types(self, account_pk: int) -> dict[str, int]:
        meter_points = self._session.execute(
            select(MeterPoint.ean, MeterPoint.supply_type)
            .join(SupplyAddress, SupplyAddress.id == MeterPoint.supply_address_pk)
            .where(SupplyAddress.account_pk == account_pk)
        ).all()
        ledgers: dict[str, int] = {}
        for row in self._rows:
            for ean, supply_type in meter_points:
                if ean in (row.identifiers or ()):
                    ledgers.setdefault(supply_type, row.id)
        return ledgers

    def _count_added(self, account_pk: int) -> Counter[int]:
        counted = self._session.execute(
            select(Transaction.ledger_pk, func.count())
            .where(Transaction.account_pk == account_pk, Transaction.period == TransactionPeriod.ADDED)
            .group_by(Transaction.ledger_pk)
        )
        return Counter({row.ledger_pk: int(row[1]) for row in counted})
