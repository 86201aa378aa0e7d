"""Statements while they are added, read and written for many accounts together."""

from collections import Counter
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from sqlalchemy import ARRAY, BigInteger, Text, and_, bindparam, func, insert, literal, or_, select, text
from sqlalchemy.orm import Session

from migration_payloads.rules.statements import (
    duplicate_statement_numbers,
    find_fault_of_gross_amount,
    gross_amount_not_in_cents,
)
from migration_payloads.schemas.messages import shown
from migration_payloads.schemas.statement import HistoricalStatementSchema
from migration_service.db.base import one_of
from migration_service.errors import ErrorItem
from migration_service.models import Statement
from migration_service.origin import current_origin
from migration_service.services.accounts.added_data import Addition, OpenAccount, part_values
from migration_service.states import StatementOrigin

_FIELDS = tuple(HistoricalStatementSchema().fields)


class StatementBooks:
    """The existing statements that posted ones may match, and the rows of the new ones."""

    def __init__(self, session: Session, additions: Sequence[Addition]) -> None:
        self._session = session
        posted = [(it.account.id, statement) for it in additions for statement in it.data["statements"]]
        #: Statements by account key and statement_id, and statement_ids by account key and number.
        self._known: dict[tuple[int, str], dict[str, Any]] = {}
        self._numbers: dict[tuple[int, str], str] = {}
        for row in _find_known(session, posted):
            values = zip(_FIELDS, row[1:], strict=True)
            self._known[row[0], row.statement_id] = {it: value for it, value in values if value is not None}
            self._numbers[row[0], row.number] = row.statement_id
        self._sums = _sum_transactions(session, {(key, statement["number"]) for key, statement in posted})
        self._rows: list[tuple[OpenAccount, dict[str, Any]]] = []

    def find(self, account: OpenAccount, statement_id: str) -> dict[str, Any] | None:
        """Return the account's statement with this statement_id, or None."""
        return self._known.get((account.id, statement_id))

    def find_faults(self, account: OpenAccount, statement: dict[str, Any], index: int) -> list[ErrorItem]:
        """Return the warnings about a new statement in view of its account. `index` is its position."""
        faults = []
        number, gross_amount = statement["number"], statement["gross_amount"]
        if other := self._numbers.get((account.id, number)):
            detail = f"{shown(number)} is already the number of the account's statement {shown(other)}."
            faults.append(ErrorItem(duplicate_statement_numbers.code, detail, f"statements.{index}.number"))
        sums = self._sums.get((account.id, number), ())
        # The rule has already reported amounts with a fraction of a cent.
        if not gross_amount % 1 and (detail := find_fault_of_gross_amount(gross_amount, sums) or ""):
            attr = f"statements.{index}.gross_amount"
            faults.append(ErrorItem(gross_amount_not_in_cents.code, detail, attr))
        return faults

    def add(self, account: OpenAccount, statement: dict[str, Any]) -> None:
        """Add a statement and remember it."""
        self._known[account.id, statement["statement_id"]] = statement
        self._numbers.setdefault((account.id, statement["number"]), statement["statement_id"])
        self._rows.append((account, statement))

    def write(self) -> None:
        """Write the added statements, each at the next position of its account."""
        if not self._rows:
            return
        positions = _count_added(self._session, {account.id for account, _ in self._rows})
        rows = []
        for account, statement in self._rows:
            rows.append(
                {
                    "account_pk": account.id,
                    "position": positions[account.id],
                    "origin": StatementOrigin.ADDED,
                    **part_values(Statement, statement, account.supplier),
                    **current_origin().trace(),
                }
            )
            # A context is never sent here. None would be stored as the JSON value null.
            del rows[-1]["statement_pdf_context"]
            positions[account.id] += 1
        self._session.execute(insert(Statement), rows)


def _find_known(session: Session, posted: Sequence[tuple[int, dict[str, Any]]]) -> Sequence[Any]:
    """Return the statements of these accounts with the statement_id or the number of a posted one."""
    wanted = (
        func.unnest(
            literal([key for key, _ in posted], ARRAY(BigInteger)),
            literal([statement["statement_id"] for _, statement in posted], ARRAY(Text)),
            literal([statement["number"] for _, statement in posted], ARRAY(Text)),
        )
        .table_valued("account_pk", "statement_id", "number", name="posted")
        .render_derived()
    )
    is_same = or_(wanted.c.statement_id == Statement.statement_id, wanted.c.number == Statement.number)
    return session.execute(
        select(Statement.account_pk, *(getattr(Statement, name) for name in _FIELDS)).join(
            wanted, and_(wanted.c.account_pk == Statement.account_pk, is_same)
        )
    ).all()


def _sum_transactions(
    session: Session, invoices: set[tuple[int, str]]
) -> dict[tuple[int, str], list[Decimal]]:
    """Return the sums of the transactions of invoices in euros: the charges and the payments."""
    values = {"accounts": [key for key, _ in invoices], "numbers": [number for _, number in invoices]}
    sums: dict[tuple[int, str], list[Decimal]] = {}
    for row in session.execute(_SUMS, values):
        sums.setdefault((row.account_pk, row.number), []).append(row.amount)
    return sums


_SUMS = text("""
    SELECT account_pk, posted.number, type IN ('PAYMENT', 'REPAYMENT') AS is_paid,
           sum(CASE WHEN type IN ('PAYMENT', 'CREDIT') THEN amount ELSE -amount END) AS amount
    FROM unnest(:accounts, :numbers) AS posted (account_pk, number) JOIN "transaction" USING (account_pk)
    WHERE associated_invoice_number = posted.number
    GROUP BY 1, 2, 3
""").bindparams(bindparam("accounts", type_=ARRAY(BigInteger)), bindparam("numbers", type_=ARRAY(Text)))


def _count_added(session: Session, account_pks: set[int]) -> Counter[int]:
    counted = session.execute(
        select(Statement.account_pk, func.count())
        .where(
            one_of(Statement.account_pk.expression, account_pks), Statement.origin == StatementOrigin.ADDED
        )
        .group_by(Statement.account_pk)
    )
    return Counter({row[0]: int(row[1]) for row in counted})
