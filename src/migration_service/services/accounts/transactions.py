"""Adding financial transactions to an account: all of a request, or none (sections 2.5 and 4.9).

A transaction is identified by its transaction_id. If the account has it with the same amount and type, it is
skipped. With another amount or type it is an error, because skipping it would lose money.
"""

from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import StrEnum
from typing import Any

from sqlalchemy import insert, select
from sqlalchemy.orm import Session

from migration_service.db.base import one_of
from migration_service.errors import (
    ErrorItem,
    TransactionIdAlreadyUsedError,
    TransactionOutsideOpenPeriodError,
)
from migration_service.models import LineItem, TaxItem, Transaction
from migration_service.models.part import Part, parent_column
from migration_service.origin import current_origin
from migration_service.services.access.tokens import Caller
from migration_service.services.accounts.added_data import (
    OpenAccount,
    PostedBody,
    part_values,
)
from migration_service.services.accounts.ledgers import Ledgers, OpenPeriod
from migration_service.services.accounts.notes import write_notes
from migration_service.services.accounts.reading import read_parts
from migration_service.services.accounts.transaction_checks import (
    Fault,
    first_error,
    open_checked_account,
)
from migration_service.states import TransactionPeriod


class TransactionStatus(StrEnum):
    """What became of a posted transaction (section 3.3)."""

    #: It is on the account now.
    ADDED = "TRANSACTION_ADDED_TO_ACCOUNT"
    #: It was on the account already.
    ALREADY_EXISTS = "TRANSACTION_ALREADY_EXISTS"


#: What every transaction has that passed the schema.
_ADDABLE = {"transaction_id", "transaction_date", "amount", "type"}

#: The status within the data of a transaction that was on the account already.
_IMPORTED = {"status": "TRANSACTION_IMPORT_SUCCESS"}


@dataclass(frozen=True, slots=True)
class TransactionResult:
    """The result for one posted transaction, as it is on the account now."""

    status: TransactionStatus
    transaction_data: dict[str, Any]


@dataclass(frozen=True, slots=True)
class _Known:
    """A transaction that the account has. If `id` is None, it came earlier in this request."""

    id: int | None
    amount: Decimal
    type: str
    data: dict[str, Any] | None = None


def add_transactions(
    session: Session,
    caller: Caller,
    body: PostedBody,
    *,
    check_previously_added: bool,
    force_add_to_current_statement: bool,
) -> list[TransactionResult]:
    """Add the transactions that the account does not have yet. Return one result for each, in their order.

    `body.data` is what `schemas.added_data.TransactionsRequest` loads, and `body.errors` what it refused.
    Every check is made for every transaction before anything is raised. The error is that of the first
    failing transaction: RequestFailedValidationError, TransactionIdAlreadyUsedError or
    TransactionOutsideOpenPeriodError. It lists the errors of all transactions in their order. Raise
    ImportSupplierNotFoundInBodyError or AccountNotFoundInBodyError if nothing else is wrong. The caller rolls
    back after any of these.
    """
    account, faults = open_checked_account(session, caller, body)
    transactions: list[dict[str, Any]] = body.data.get("transactions", [])
    addition = _Addition(session, account, transactions, check_previously_added=check_previously_added)
    for transaction in transactions:
        addition.take(transaction, move=force_add_to_current_statement)
    if faults := faults + addition.faults:
        raise first_error(faults)
    addition.write()
    return addition.results()


class _Addition:
    """The transactions of one request while they are added to the account."""

    def __init__(
        self,
        session: Session,
        account: OpenAccount,
        transactions: list[dict[str, Any]],
        *,
        check_previously_added: bool,
    ) -> None:
        self._session = session
        self._account = account
        self._skips_known = check_previously_added
        self._ledgers = Ledgers(session, account.id, datetime.now(UTC).date())
        sent = {it["transaction_id"] for it in transactions if "transaction_id" in it}
        self._known = _find_known(session, account.id, sent)
        self._taken: list[tuple[TransactionStatus, dict[str, Any] | _Known]] = []
        self._rows: list[dict[str, Any]] = []
        self._added: list[dict[str, Any]] = []
        self._notes: list[dict[str, Any]] = []
        self._count = 0
        #: What is wrong with the transactions taken so far.
        self.faults: list[Fault] = []

    def take(self, transaction: dict[str, Any], *, move: bool) -> None:
        """Check the next transaction. With `move`, change its date to the open period if it is outside.

        A value that the schema refused is absent. The rest is still checked, and nothing is written later.
        """
        index = self._count
        self._count += 1
        known = self._known.get(transaction.get("transaction_id", ""))
        if known is not None:
            self._skip(transaction, known, index)
            return
        ledger_pk = self._ledgers.choose(transaction)
        period = self._ledgers.period(ledger_pk)
        if "transaction_date" in transaction and not period.has(transaction["transaction_date"]):
            if not move:
                self._refuse_date(transaction["transaction_date"], period, index)
                return
            transaction = self._move(transaction, period)
        if transaction.keys() >= _ADDABLE:
            self._add(transaction, ledger_pk)

    def write(self) -> None:
        """Write the transactions that were accepted, and change the balances."""
        if not self._added:
            return
        inserted = insert(Transaction).returning(Transaction.id, sort_by_parameter_order=True)
        keys = list(self._session.scalars(inserted, self._rows))
        for model in (LineItem, TaxItem):
            self._write_items(model, keys)
        self._ledgers.save()
        if self._notes:
            write_notes(self._session, self._account, self._notes)

    def results(self) -> list[TransactionResult]:
        """Return the result for each transaction."""
        keys = {it.id for _, it in self._taken if isinstance(it, _Known) and it.id is not None}
        existing = read_parts(self._session, Transaction, keys) if keys else {}
        results = []
        for status, it in self._taken:
            if isinstance(it, _Known):
                data = it.data if it.id is None else existing[it.id]
                results.append(TransactionResult(status, {**(data or {}), **_IMPORTED}))
            else:
                results.append(TransactionResult(status, it))
        return results

    def _skip(self, transaction: dict[str, Any], known: _Known, index: int) -> None:
        if not transaction.keys() >= _ADDABLE:
            return
        same = (known.amount, known.type) == (transaction["amount"], transaction["type"])
        if same and self._skips_known:
            self._taken.append((TransactionStatus.ALREADY_EXISTS, known))
            return
        what = "the same transaction" if same else "a transaction of another amount or type"
        detail = f"The transaction_id is already used by {what} of the account."
        item = ErrorItem(TransactionIdAlreadyUsedError.code, detail, f"transactions.{index}.transaction_id")
        self.faults.append((TransactionIdAlreadyUsedError, item))

    def _refuse_date(self, day: date, period: OpenPeriod, index: int) -> None:
        detail = f"The transaction is not within the open statement period: {day} is not in {period}."
        attr = f"transactions.{index}.transaction_date"
        item = ErrorItem(TransactionOutsideOpenPeriodError.code, detail, attr)
        self.faults.append((TransactionOutsideOpenPeriodError, item))

    def _move(self, transaction: dict[str, Any], period: OpenPeriod) -> dict[str, Any]:
        sent = transaction["transaction_date"]
        day = period.nearest(sent)
        reason = (
            f"The date was changed from {sent} to {day} when the transaction was imported: it was outside "
            f"the open statement period ({period})."
        )
        self._notes.append(
            {"body": f"Transaction {transaction.get('transaction_id')}: {reason}", "is_pinned": True}
        )
        note = "\n".join(filter(None, [transaction.get("note"), reason]))
        return {**transaction, "transaction_date": day, "note": note}

    def _add(self, transaction: dict[str, Any], ledger_pk: int) -> None:
        self._known[transaction["transaction_id"]] = _Known(
            None, transaction["amount"], transaction["type"], transaction
        )
        self._taken.append((TransactionStatus.ADDED, transaction))
        self._added.append(transaction)
        self._rows.append(
            {
                "ledger_pk": ledger_pk,
                "account_pk": self._account.id,
                "period": TransactionPeriod.ADDED,
                "position": self._ledgers.add(ledger_pk, transaction),
                **part_values(Transaction, transaction, self._account.supplier),
                **current_origin().trace(),
            }
        )

    def _write_items(self, model: type[Part], keys: list[int]) -> None:
        name, parent = model.sources[0].key, parent_column(model).name
        rows = [
            {parent: key, "position": position, **part_values(model, item, self._account.supplier)}
            for key, transaction in zip(keys, self._added, strict=True)
            for position, item in enumerate(transaction.get(name, ()))
        ]
        if rows:
            self._session.execute(insert(model), rows)


def _find_known(session: Session, account_pk: int, transaction_ids: set[str]) -> dict[str, _Known]:
    found = session.execute(
        select(Transaction.transaction_id, Transaction.id, Transaction.amount, Transaction.type).where(
            Transaction.account_pk == account_pk,
            one_of(Transaction.transaction_id.expression, transaction_ids),
        )
    )
    return {row.transaction_id: _Known(row.id, row.amount, row.type) for row in found}
