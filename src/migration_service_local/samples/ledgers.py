"""Ledgers whose transactions add up, and the statements that belong to them (sections 2.3, 2.5).

Balances are computed in cents. Credit is positive.
"""

from collections.abc import Callable
from itertools import count
from typing import Any, NamedTuple

from migration_service_local.samples.charges import Period, make_supply_charge
from migration_service_local.samples.connections import Connection
from migration_service_local.samples.dates import Calendar

_PAYMENT_TYPES = ("DD_REGULAR_COLLECTION",) * 8 + ("DIRECT_CREDIT", "DEBIT_CARD")
_CREDIT_NOTES = ("Welcome bonus", "Compensation for a late final bill", "Loyalty discount")
_CHARGE_NOTES = ("Reminder costs", "Costs of a paper bill")


class Settlement(NamedTuple):
    """The billed periods of a ledger, and the first days of the months since then, which are open."""

    periods: list[Period]
    open_months: list[int]


class LedgerBook:
    """Writes one ledger: transactions in order, their sum, the statements."""

    def __init__(
        self,
        r: Callable[[], float],
        calendar: Calendar,
        connections: list[Connection],
        *,
        number: str,
        code: str,
        position: int,
        itemised: bool,
    ) -> None:
        self.r = r
        self.calendar = calendar
        self.connections = connections
        self.code = code
        self.itemised = itemised
        self.payment_type = _PAYMENT_TYPES[int(r() * len(_PAYMENT_TYPES))]
        self.payment_day = 19 + int(r() * 8)
        self.advance = sum(connection.advance for connection in connections)
        self.transactions: list[dict[str, Any]] = []
        self.statements: list[dict[str, Any]] = []
        self.balance = 0
        self._prefix = f"{number}-{position}"
        self._invoice = ""
        # The amount that the last bill leaves to repay. It is negative if the customer owes it.
        self._refund = 0
        self._ids = (f"T-{number}-{position}-{serial}" for serial in count(1))

    def write(self, settlement: Settlement) -> dict[str, Any]:
        """Return the ledger of the payload, and put its statements into `statements`."""
        for period in settlement.periods:
            self._write_period(period)
        historical, settled = self.transactions, self.balance
        self.transactions = []
        for month in settlement.open_months:
            self._write_month(month, monthly=settlement.periods[-1].months == 1)
        ledger: dict[str, Any] = {
            "identifiers": list(dict.fromkeys([connection.ean for connection in self.connections])),
            "last_settlement_balance": settled / 100,
            "last_settlement_closing_date": self.calendar.iso[settlement.periods[-1].last],
            "last_settlement_issue_date": self.statements[-1]["issued_date"],
            "ledger_code": self.code,
            "ledger_balance": self.balance / 100,
        }
        if self.transactions:
            ledger["transactions_in_open_settlement_period"] = self.transactions
        ledger["historical_statement_transactions"] = historical
        return ledger

    def _write_period(self, period: Period) -> None:
        """Add the payments of a period, then its charges, and its statement on the last day."""
        months = self.calendar.months
        if period.months == 1:
            self._write_month(period.first, monthly=True)
        else:
            for month in months:
                if period.first <= month.first <= period.last:
                    self._write_month(month.first, monthly=False)
        year = self.calendar.iso[period.last][:4]
        self._invoice = f"{year}-{self._prefix}-{len(self.statements) + 1:02d}"
        gross = 0
        for connection in self.connections:
            charge, amount = make_supply_charge(
                self.r,
                connection,
                period,
                self.calendar,
                transaction_id=next(self._ids),
                invoice=self._invoice,
                itemised=self.itemised,
            )
            self.transactions.append(charge)
            gross += amount
        self.balance -= gross
        self._refund = self.balance
        self._write_statement(period, gross, year)

    def _write_statement(self, period: Period, gross: int, year: str) -> None:
        """Add the statement of a period.

        A few have only the data for recreating the document.
        """
        iso = self.calendar.iso
        issued = min(period.last + 1 + int(self.r() * 9), self.calendar.today)
        statement: dict[str, Any] = {
            "bill_period_from_date": iso[period.first],
            "bill_period_to_date": iso[period.last],
            "gross_amount": gross,
            "issued_date": iso[issued],
            "number": self._invoice,
            "statement_id": f"S-{self._invoice}",
        }
        if self.r() < 0.97:
            statement["statement_path"] = f"statements/{year}/{self._invoice}.pdf"
            statement["statement_pdf_context"] = {}
        else:
            statement["statement_pdf_context"] = {"template": "bill", "language": "nl"}
        self.statements.append(statement)

    def _write_month(self, first: int, *, monthly: bool) -> None:
        """Add the other transactions of the month that starts on `first`. None is in the future."""
        r, today = self.r, self.calendar.today
        refund, self._refund = self._refund, 0
        if refund > 0 and r() < 0.6 and first + 9 <= today:
            self._add("REPAYMENT", first + 9, refund, "FULL_CREDIT_REFUND", payment_type="DIRECT_CREDIT")
        due = -self.balance if monthly or (self.balance < 0 and self._invoice) else self.advance
        if due > 0 and r() < 0.97 and first + self.payment_day <= today:
            day, reason = first + self.payment_day, "ACCOUNT_CHARGE_PAYMENT"
            self._add("PAYMENT", day, due, reason, payment_type=self.payment_type)
        if r() < 0.02 and first + 14 <= today:
            reason = "GENERAL_CREDIT" if r() < 0.6 else "IMPORTED_CREDIT"
            note = _CREDIT_NOTES[int(r() * len(_CREDIT_NOTES))]
            self._add("CREDIT", first + 14, 500 + int(r() * 9_500), reason, note=note)
        if r() < 0.02 and first + 15 <= today:
            note = _CHARGE_NOTES[int(r() * len(_CHARGE_NOTES))]
            self._add("CHARGE", first + 15, 250 + int(r() * 4_000), "IMPORTED_CHARGE", note=note)

    def _add(
        self, kind: str, day: int, amount: int, reason: str, *, payment_type: str = "", note: str = ""
    ) -> None:
        """Add a transaction other than a supply charge. `amount` is in cents, and positive."""
        transaction: dict[str, Any] = {
            "transaction_id": next(self._ids),
            "transaction_date": self.calendar.iso[day],
            "amount": amount / 100,
            "type": kind,
            "reason": reason,
        }
        if payment_type:
            transaction["reference"] = self._invoice
            transaction["payment_type"] = payment_type
        if note:
            transaction["display_note"] = note
            if self.r() < 0.5:
                transaction["note"] = "Taken over from the former system."
        self.transactions.append(transaction)
        self.balance += amount if kind in {"PAYMENT", "CREDIT"} else -amount
