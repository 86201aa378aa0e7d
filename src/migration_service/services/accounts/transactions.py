"""Adding financial transactions to an account, all of a request or none (sections 2.5 and 4.9).

A transaction is identified by its transaction_id. If the account already has it with the same amount and
type, it is skipped, with a warning for each other value that differs. A different amount or type is an error,
because skipping it would lose money.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date
from enum import StrEnum
from typing import Any

from sqlalchemy import ARRAY, BigInteger, Text, bindparam, insert, text
from sqlalchemy.orm import Session

from migration_payloads.normal_form import TRANSACTION
from migration_payloads.rules.added_data import DATE_CHANGED, TRANSACTION_NOT_CHANGED
from migration_service import errors
from migration_service.models import LineItem, TaxItem, Transaction
from migration_service.models.part import Part, parent_column
from migration_service.origin import current_origin
from migration_service.services.access.callers import Caller
from migration_service.services.accounts import added_data, transaction_checks
from migration_service.services.accounts.ledgers import OpenPeriod, read_ledgers, save_ledgers
from migration_service.services.accounts.notes import add_notes_to_accounts
from migration_service.services.accounts.reading import read_parts
from migration_service.states import TransactionPeriod


class TransactionStatus(StrEnum):
    """The status of a posted transaction (section 3.3)."""

    #: The transaction was added to the account.
    ADDED = "TRANSACTION_ADDED_TO_ACCOUNT"
    #: The transaction existed on the account already.
    ALREADY_EXISTS = "TRANSACTION_ALREADY_EXISTS"


#: Members of every transaction that passed the schema.
_ADDABLE = {"transaction_id", "transaction_date", "amount", "type"}


@dataclass(frozen=True, slots=True)
class Taken:
    """A posted transaction that was added or existed already."""

    status: TransactionStatus
    #: The transaction as added, or the existing one, in the structure of the payload.
    transaction: dict[str, Any]
    #: That its date was changed, or what the existing one has otherwise.
    warnings: list[errors.ErrorItem] = field(default_factory=list)

    @property
    def transaction_data(self) -> dict[str, Any]:
        """Return the transaction of the response, as it is now on the account."""
        exists = self.status is TransactionStatus.ALREADY_EXISTS
        return self.transaction | (added_data.EXISTING if exists else {})


def add_transactions(
    session: Session,
    caller: Caller,
    body: added_data.PostedBody,
    *,
    check_previously_added: bool,
    force_add_to_current_statement: bool,
) -> added_data.Accepted:
    """Add the transactions that the account does not have yet. Return a result for each, in order.

    `body.data` is loaded by `schemas.added_data.TransactionsRequest`, and `body.errors` are its errors. Every
    transaction is checked completely before anything is raised. The error is that of the first failing
    transaction: RequestFailedValidationError, TransactionIdAlreadyUsedError or
    TransactionOutsideOpenPeriodError. It lists the errors of all transactions in order. Raise
    ImportSupplierNotFoundInBodyError or AccountNotFoundInBodyError if nothing else is wrong. The caller rolls
    back after any of these.
    """
    account, checked = transaction_checks.open_checked_account(session, caller, body)
    (results,) = add_transactions_to_accounts(
        session,
        [added_data.Addition(account, body.data, checked.errors)],
        check_previously_added=check_previously_added,
        force_add_to_current_statement=force_add_to_current_statement,
    )
    if isinstance(results, errors.ServiceError):
        raise results
    warnings = [warning for it in results for warning in it.warnings]
    answered = [{"status": it.status, "transaction_data": it.transaction_data} for it in results]
    return added_data.Accepted({"results": answered}, checked.warnings + warnings)


def add_transactions_to_accounts(
    session: Session,
    additions: Sequence[added_data.Addition],
    *,
    check_previously_added: bool,
    force_add_to_current_statement: bool,
) -> list[list[Taken] | errors.InvalidError]:
    """Add the transactions that the accounts do not have yet. Return the result of each addition.

    The caller must have locked the accounts. No transaction of an addition is added if it has errors, or if
    one of its transactions fails. The result of the addition is then the error that `add_transactions` would
    raise. Additions to one account are made in order.
    """
    books = _TransactionBooks(session, additions)
    taken = []
    for addition in additions:
        one = _Addition(addition, books, skips_known=check_previously_added)
        for index, transaction in enumerate(addition.data.get("transactions", ())):
            one.take(index, transaction, move=force_add_to_current_statement)
        taken.append(one.settle())
    books.write()
    return taken


class _TransactionBooks:
    """The transactions and ledgers of accounts, with the additions to them until these are written."""

    def __init__(self, session: Session, additions: Sequence[added_data.Addition]) -> None:
        self._session = session
        accounts = {it.account.id: it.account for it in additions}
        # All accounts belong to one supplier.
        today = next(iter(accounts.values())).supplier.today
        self.ledgers = read_ledgers(session, accounts, today)
        #: Transactions by account key and transaction_id, in the structure of the payload.
        self.known = _find_known(session, additions)
        self._added: list[tuple[added_data.OpenAccount, dict[str, Any], dict[str, Any]]] = []
        self._notes: list[tuple[added_data.OpenAccount, list[dict[str, Any]]]] = []

    def add(self, account: added_data.OpenAccount, transaction: dict[str, Any], ledger_pk: int) -> None:
        """Add a transaction and remember it."""
        self.known[account.id, transaction["transaction_id"]] = transaction
        row = {
            "ledger_pk": ledger_pk,
            "account_pk": account.id,
            "period": TransactionPeriod.ADDED,
            "position": self.ledgers[account.id].add(ledger_pk, transaction),
            **added_data.part_values(Transaction, transaction, account.supplier),
            **current_origin().trace(),
        }
        self._added.append((account, transaction, row))

    def pin(self, account: added_data.OpenAccount, notes: list[dict[str, Any]]) -> None:
        """Add notes to an account."""
        if notes:
            self._notes.append((account, notes))

    def write(self) -> None:
        """Write the added transactions and update the balances."""
        if not self._added:
            return
        inserted = insert(Transaction).returning(Transaction.id, sort_by_parameter_order=True)
        keys = list(self._session.scalars(inserted, [row for _, _, row in self._added]))
        for model in (LineItem, TaxItem):
            self._write_items(model, keys)
        save_ledgers(self._session, self.ledgers.values())
        if self._notes:
            add_notes_to_accounts(self._session, self._notes)

    def _write_items(self, model: type[Part], keys: list[int]) -> None:
        name, parent = model.sources[0].key, parent_column(model).name
        rows = [
            {parent: key, "position": position, **added_data.part_values(model, item, account.supplier)}
            for key, (account, transaction, _) in zip(keys, self._added, strict=True)
            for position, item in enumerate(transaction.get(name, ()))
        ]
        if rows:
            self._session.execute(insert(model), rows)


#: The end of the note of a transaction whose date was changed, which names the date that was sent.
_MOVED = "The date was changed from {sent} to {day} when the transaction was imported: "
_MOVED_FROM = re.compile(r"\n?" + _MOVED.format(sent=r"(\d{4}-\d\d-\d\d)", day=r"[-\d]+") + r".*\Z")


def _find_unchanged(posted: dict[str, Any], existing: dict[str, Any], index: int) -> list[errors.ErrorItem]:
    """Return a warning for each value of a posted transaction that the existing one has otherwise.

    Of a transaction whose date was changed, both the date and the note that were sent first are the same, and
    those that answers have since.
    """
    paths = [it.path for it in TRANSACTION.find_differences(posted, existing)]
    note = existing.get("note") or ""
    if moved := _MOVED_FROM.search(note):
        sent = date.fromisoformat(moved[1])
        first = {**existing, "transaction_date": sent, "note": note[: moved.start()]}
        otherwise = {it.path for it in TRANSACTION.find_differences(posted, first)}
        paths = [it for it in paths if it in otherwise]
    return [
        errors.ErrorItem(
            TRANSACTION_NOT_CHANGED,
            "The transaction already exists with another value here, which was not changed.",
            f"transactions.{index}.{path}",
        )
        for path in paths
    ]


class _Addition:
    """The transactions of one body while they are checked. `settle` adds them to the books."""

    def __init__(self, addition: added_data.Addition, books: _TransactionBooks, *, skips_known: bool) -> None:
        self._account = addition.account
        self._books = books
        self._ledgers = books.ledgers[addition.account.id]
        self._skips_known = skips_known
        self._new: dict[str, tuple[dict[str, Any], int]] = {}
        self._taken: list[Taken] = []
        self._notes: list[dict[str, Any]] = []
        self._faults: list[transaction_checks.Fault] = transaction_checks.as_faults(addition.errors)

    def take(self, index: int, transaction: dict[str, Any], *, move: bool) -> None:
        """Check the next transaction. With `move`, change a date outside the open period to one within it.

        Values that the schema refused are absent. The rest is still checked, but nothing is written later.
        """
        transaction_id = transaction.get("transaction_id", "")
        known = self._books.known.get((self._account.id, transaction_id))
        if transaction_id in self._new:
            known, _ = self._new[transaction_id]
        if known is not None:
            self._skip(transaction, known, index)
            return
        warnings: list[errors.ErrorItem] = []
        ledger_pk = self._ledgers.choose(transaction)
        period = self._ledgers.period(ledger_pk)
        if "transaction_date" in transaction and not period.has(transaction["transaction_date"]):
            if not move:
                self._refuse_date(transaction["transaction_date"], period, index)
                return
            transaction, warning = self._move(transaction, period, index)
            warnings.append(warning)
        if transaction.keys() >= _ADDABLE:
            self._new[transaction["transaction_id"]] = (transaction, ledger_pk)
            self._taken.append(Taken(TransactionStatus.ADDED, transaction, warnings))

    def settle(self) -> list[Taken] | errors.InvalidError:
        """Add the transactions to the books. If there are faults, return the error instead."""
        if self._faults:
            return transaction_checks.first_error(self._faults)
        for transaction, ledger_pk in self._new.values():
            self._books.add(self._account, transaction, ledger_pk)
        self._books.pin(self._account, self._notes)
        return self._taken

    def _skip(self, transaction: dict[str, Any], known: dict[str, Any], index: int) -> None:
        if not transaction.keys() >= _ADDABLE:
            return
        same = all(known[name] == transaction[name] for name in ("amount", "type"))
        if same and self._skips_known:
            warnings = _find_unchanged(transaction, known, index)
            self._taken.append(Taken(TransactionStatus.ALREADY_EXISTS, known, warnings))
            return
        what = "the same transaction" if same else "a transaction of another amount or type"
        detail = f"The transaction_id is already used by {what} of the account."
        item = errors.ErrorItem(
            errors.TransactionIdAlreadyUsedError.code, detail, f"transactions.{index}.transaction_id"
        )
        self._faults.append((errors.TransactionIdAlreadyUsedError, item))

    def _refuse_date(self, day: date, period: OpenPeriod, index: int) -> None:
        detail = f"The transaction is not within the open statement period: {day} is not in {period}."
        attr = f"transactions.{index}.transaction_date"
        item = errors.ErrorItem(errors.TransactionOutsideOpenPeriodError.code, detail, attr)
        self._faults.append((errors.TransactionOutsideOpenPeriodError, item))

    def _move(
        self, transaction: dict[str, Any], period: OpenPeriod, index: int
    ) -> tuple[dict[str, Any], errors.ErrorItem]:
        sent = transaction["transaction_date"]
        day = period.nearest(sent)
        reason = f"{_MOVED.format(sent=sent, day=day)}it was outside the open statement period ({period})."
        self._notes.append(
            {"body": f"Transaction {transaction.get('transaction_id')}: {reason}", "is_pinned": True}
        )
        note = "\n".join(filter(None, [transaction.get("note"), reason]))
        detail = f"The date was changed from {sent} to {day}: it was outside the open period ({period})."
        warning = errors.ErrorItem(DATE_CHANGED, detail, f"transactions.{index}.transaction_date")
        return {**transaction, "transaction_date": day, "note": note}, warning


def _find_known(
    session: Session, additions: Sequence[added_data.Addition]
) -> dict[tuple[int, str], dict[str, Any]]:
    posted = {
        (addition.account.id, it["transaction_id"])
        for addition in additions
        for it in addition.data.get("transactions", ())
        if "transaction_id" in it
    }
    values = {"accounts": [account for account, _ in posted], "ids": [id_ for _, id_ in posted]}
    keys = {row.id: (row.account_pk, row.transaction_id) for row in session.execute(_KNOWN, values)}
    if not keys:
        return {}
    existing = read_parts(session, Transaction, keys)
    return {key: existing[id_] for id_, key in keys.items()}


_KNOWN = text("""
    SELECT account_pk, transaction_id, "transaction".id
    FROM unnest(:accounts, :ids) AS posted (account_pk, transaction_id)
    JOIN "transaction" USING (account_pk, transaction_id)
""").bindparams(bindparam("accounts", type_=ARRAY(BigInteger)), bindparam("ids", type_=ARRAY(Text)))
