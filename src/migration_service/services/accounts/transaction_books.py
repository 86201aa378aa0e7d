"""Transactions while they are added, read and written for many accounts together."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ARRAY, BigInteger, Text, bindparam, insert, text
from sqlalchemy.orm import Session

from migration_service.models import LineItem, TaxItem, Transaction
from migration_service.models.part import Part, parent_column
from migration_service.origin import current_origin
from migration_service.services.accounts.added_data import Addition, OpenAccount, part_values
from migration_service.services.accounts.ledgers import read_ledgers, save_ledgers
from migration_service.services.accounts.notes import write_notes
from migration_service.services.accounts.reading import read_parts
from migration_service.states import TransactionPeriod


@dataclass(frozen=True, slots=True)
class KnownTransaction:
    """A transaction of the account. `id` is None until it is written."""

    id: int | None
    #: As it is on the account, in the structure of the payload.
    data: dict[str, Any]


class TransactionBooks:
    """The transactions and ledgers of accounts, with the additions to them until these are written."""

    def __init__(self, session: Session, additions: Sequence[Addition]) -> None:
        self._session = session
        accounts = {it.account.id: it.account for it in additions}
        # All accounts belong to one supplier.
        today = next(iter(accounts.values())).supplier.today
        self.ledgers = read_ledgers(session, accounts, today)
        #: Transactions by account key and transaction_id.
        self.known = _find_known(session, additions)
        self._added: list[tuple[OpenAccount, dict[str, Any], dict[str, Any]]] = []
        self._notes: list[tuple[OpenAccount, list[dict[str, Any]]]] = []

    def add(self, account: OpenAccount, transaction: dict[str, Any], ledger_pk: int) -> None:
        """Add a transaction and remember it."""
        known = KnownTransaction(None, transaction)
        self.known[account.id, transaction["transaction_id"]] = known
        row = {
            "ledger_pk": ledger_pk,
            "account_pk": account.id,
            "period": TransactionPeriod.ADDED,
            "position": self.ledgers[account.id].add(ledger_pk, transaction),
            **part_values(Transaction, transaction, account.supplier),
            **current_origin().trace(),
        }
        self._added.append((account, transaction, row))

    def pin(self, account: OpenAccount, notes: list[dict[str, Any]]) -> None:
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
            write_notes(self._session, self._notes)

    def _write_items(self, model: type[Part], keys: list[int]) -> None:
        name, parent = model.sources[0].key, parent_column(model).name
        rows = [
            {parent: key, "position": position, **part_values(model, item, account.supplier)}
            for key, (account, transaction, _) in zip(keys, self._added, strict=True)
            for position, item in enumerate(transaction.get(name, ()))
        ]
        if rows:
            self._session.execute(insert(model), rows)


def _find_known(session: Session, additions: Sequence[Addition]) -> dict[tuple[int, str], KnownTransaction]:
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
    return {key: KnownTransaction(id_, existing[id_]) for id_, key in keys.items()}


_KNOWN = text("""
    SELECT account_pk, transaction_id, "transaction".id
    FROM unnest(:accounts, :ids) AS posted (account_pk, transaction_id)
    JOIN "transaction" USING (account_pk, transaction_id)
""").bindparams(bindparam("accounts", type_=ARRAY(BigInteger)), bindparam("ids", type_=ARRAY(Text)))
