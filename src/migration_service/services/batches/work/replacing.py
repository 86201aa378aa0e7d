"""Replacing created accounts by a newer version, until their go-live.

An account keeps its row, its numbers, its team, and what was added to it since. What came with its payload is
removed and created again, in the transaction of the caller. What was added has to fit the new version: a
transaction needs its ledger and an open period there, and nothing may contradict what is in the payload now.
What the payload has itself by now is not kept twice.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from sqlalchemy import ARRAY, BigInteger, Row, TextClause, bindparam, select, text
from sqlalchemy.orm import Session

from migration_payloads.normal_form import STATEMENT, read_json
from migration_payloads.profile import Profile
from migration_payloads.validation import ValidatedAccount
from migration_service import errors
from migration_service.db.base import one_of
from migration_service.db.sql import OpenTransaction
from migration_service.models import Ledger, Statement, Transaction
from migration_service.services.accounts.ledgers import ENERGY_LEDGER
from migration_service.services.accounts.reading import read_parts
from migration_service.services.accounts.removal import renewal_statements
from migration_service.services.imports import storing
from migration_service.services.imports.states import StateChangeError, revert
from migration_service.services.processing.creation import create_accounts
from migration_service.services.setup.suppliers import IS_NEW, KnownSupplier
from migration_service.states import EmailState, StatementOrigin, TransactionPeriod


@dataclass(frozen=True, slots=True)
class Added:
    """What was added to an account: transactions, each with the code of its ledger, and statements."""

    transactions: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    statements: list[dict[str, Any]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class NewVersion:
    """A version of an account that exists, which was extracted and sent at these times."""

    process_id: int
    account: ValidatedAccount
    extracted_at: datetime | None
    sent_at: datetime


@dataclass(frozen=True, slots=True)
class Replaced:
    """An account that was created again: its number, and the team that it keeps."""

    service_account_number: str
    operations_team_id: int


def replace_accounts(
    session: Session, supplier: KnownSupplier, profile: Profile, versions: Sequence[NewVersion]
) -> list[Replaced | errors.ServiceError]:
    """Replace the accounts by these versions, or return why one is kept as it is.

    The caller holds the locks of their processes, and a savepoint, because nothing may remain of a part.
    """
    transaction = OpenTransaction.of(session)
    session.execute(_LOCK_SUPPLIER, {"id": supplier.id})  # it does not go live during the transaction
    rows = session.execute(_LOCK_ACCOUNTS, {"process_ids": [it.process_id for it in versions]})
    accounts = {row.account_import_process_id: row for row in rows}
    added = read_added(session, [row.id for row in accounts.values()])
    outcomes: dict[int, Replaced | errors.ServiceError] = {}
    payloads: dict[int, Any] = {}
    for version in versions:
        payload = read_json(version.account.json)
        account = accounts.get(version.process_id)
        outcome = _judge(account, payload, added)
        if account is not None and isinstance(outcome, Replaced):
            payloads[account.id] = payload
        outcomes[version.process_id] = outcome
    replaced = [it for it in versions if isinstance(outcomes[it.process_id], Replaced)]
    if replaced:
        with _without_old_version(session, payloads, added):
            revert(transaction, [it.process_id for it in replaced])
            _stage(transaction, supplier, profile, replaced)
            teams = {it.process_id: accounts[it.process_id].operations_team_id for it in replaced}
            create_accounts(transaction, teams, again=True)
    return [outcomes[it.process_id] for it in versions]


def _judge(
    account: Row[Any] | None, payload: Mapping[str, Any], added: Mapping[int, "Added"]
) -> Replaced | errors.ServiceError:
    if account is None:
        return errors.AccountImportInProgressError()
    if account.erased_at is not None:
        return errors.AccountErasedError()
    if account.is_live:
        return errors.AccountLiveError()
    if misfits := find_misfits(payload, added.get(account.id, Added())):
        return errors.AddedDataDoesNotFitError(errors=misfits)
    return Replaced(account.service_account_number, account.operations_team_id)


def _stage(
    transaction: OpenTransaction, supplier: KnownSupplier, profile: Profile, versions: Sequence[NewVersion]
) -> None:
    """Store versions in place of those that the accounts were created from."""
    of_file: dict[tuple[datetime | None, datetime], list[ValidatedAccount]] = {}
    for it in versions:
        of_file.setdefault((it.extracted_at, it.sent_at), []).append(it.account)
    for (extracted_at, sent_at), accounts in of_file.items():
        staged = storing.stage(
            transaction, supplier, accounts, profile=profile, extracted_at=extracted_at, sent_at=sent_at
        )
        if any(it.result is None for it in staged):
            raise StateChangeError("A version that replaces an account could not be staged.")


def read_added(session: Session, account_ids: Collection[int]) -> dict[int, Added]:
    """Return the transactions and statements that were added to these accounts, if there are any."""
    found: dict[int, Added] = {}
    of_ledgers = select(Transaction.id, Transaction.account_pk, Ledger.ledger_code).join(
        Ledger, Ledger.id == Transaction.ledger_pk
    )
    booked = of_ledgers.where(
        one_of(Transaction.account_pk.expression, account_ids), Transaction.period == TransactionPeriod.ADDED
    )
    rows = session.execute(booked.order_by(Transaction.id)).all()
    parts = read_parts(session, Transaction, [row.id for row in rows]) if rows else {}
    for row in rows:
        found.setdefault(row.account_pk, Added()).transactions.append((row.ledger_code, parts[row.id]))
    billed = select(Statement.id, Statement.account_pk).where(
        one_of(Statement.account_pk.expression, account_ids), Statement.origin == StatementOrigin.ADDED
    )
    bills = session.execute(billed.order_by(Statement.id)).all()
    parts = read_parts(session, Statement, [row.id for row in bills]) if bills else {}
    for bill in bills:
        parts[bill.id].pop("statement_location", None)  # resolved from the path that was sent
        found.setdefault(bill.account_pk, Added()).statements.append(parts[bill.id])
    return found


def find_misfits(payload: Mapping[str, Any], added: Added) -> list[errors.ErrorItem]:
    """Return an error for each thing that was added and does not fit a new version of its account."""
    ledgers = {it["ledger_code"]: it for it in payload.get("ledgers") or [{"ledger_code": ENERGY_LEDGER}]}
    own = {it["transaction_id"]: it for ledger in ledgers.values() for it in _transactions_of(ledger)}
    misfits = []
    for code, booked in added.transactions:
        if why := _explain_misfit(ledgers.get(code), own.get(booked["transaction_id"]), booked):
            misfits.append(_misfit("transaction", booked["transaction_id"], f"{why}: {code}", "ledgers"))
    bills = {it["statement_id"]: it for it in payload.get("statements") or ()}
    for bill in added.statements:
        now = bills.get(bill["statement_id"])
        if now and any(STATEMENT.find_differences(now, bill)):
            why = "is another one in the payload"
            misfits.append(_misfit("statement", bill["statement_id"], why, "statements"))
    return misfits


def _explain_misfit(
    ledger: Mapping[str, Any] | None, same: Mapping[str, Any] | None, booked: Mapping[str, Any]
) -> str | None:
    """Return why a transaction that was added does not fit the new version, or None if it does."""
    if same:
        is_same = same["type"] == booked["type"] and Decimal(str(same["amount"])) == booked["amount"]
        return None if is_same else "has another amount or type in the payload"
    if ledger is None:
        return "has no ledger any more"
    closing = ledger.get("last_settlement_closing_date")
    is_settled = closing and booked["transaction_date"] <= date.fromisoformat(closing)
    return f"is not after {closing}, up to which the ledger is settled now" if is_settled else None


@contextmanager
def _without_old_version(
    session: Session, accounts: Mapping[int, Mapping[str, Any]], added: Mapping[int, Added]
) -> Iterator[None]:
    """Remove what came with the payloads of accounts. The block creates the new version.

    `accounts` has the new payload of each account, and `added` what was added to it. What the payload has by
    now is removed from what was added. After the block the rest of that, and messages to customers, are moved
    to the new version, and what they needed until then is removed.
    """
    account_ids = list(accounts)
    for key, payload in accounts.items():
        if key in added:
            session.execute(_ABSORB_TRANSACTIONS, {"account_id": key, "ids": _booked_ids(payload)})
            bills = [it["statement_id"] for it in payload.get("statements") or ()]
            session.execute(_ABSORB_STATEMENTS, {"account_id": key, "ids": bills})
    for statement in renewal_statements():
        session.execute(statement, {"account_ids": account_ids})
    ledgers = list(session.scalars(_SET_LEDGERS_ASIDE, {"account_ids": account_ids}))
    customers = list(session.scalars(_FIND_CUSTOMERS, {"account_ids": account_ids}))
    yield
    session.execute(_MOVE_TRANSACTIONS, {"ledgers": ledgers})
    session.execute(_REMOVE_LEDGERS, {"ledgers": ledgers})
    _move_emails(session, account_ids, customers)
    session.execute(_REMOVE_EMAILS, {"customers": customers})
    session.execute(_REMOVE_CUSTOMERS, {"customers": customers})


def _move_emails(session: Session, account_ids: list[int], customers: list[int]) -> None:
    """Give each message of old customers to the one with its address, or else to the one at its position.

    So nobody is written to twice about an account. One that was not sent yet goes to the new address.
    """
    rows = session.execute(_LIST_CUSTOMERS, {"account_ids": account_ids}).all()
    old = [row for row in rows if row.email_id is not None]
    free = [row for row in rows if row.id not in set(customers)]
    moved: dict[int, int] = {}
    for same in ("email", "position"):
        for row in (it for it in old if it.email_id not in moved):
            key = (row.account_pk, getattr(row, same))
            fits = (it for it in free if (it.account_pk, getattr(it, same)) == key)
            fresh = next((it for it in fits if it.email or row.state == EmailState.SENT), None)
            if fresh is not None:
                free.remove(fresh)
                moved[row.email_id] = fresh.id
    session.execute(_MOVE_EMAILS, {"emails": list(moved), "customers": list(moved.values())})


def _transactions_of(ledger: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    names = ("transactions_in_open_settlement_period", "historical_statement_transactions")
    return [it for name in names for it in ledger.get(name) or ()]


def _booked_ids(payload: Mapping[str, Any]) -> list[str]:
    return [
        it["transaction_id"] for ledger in payload.get("ledgers") or () for it in _transactions_of(ledger)
    ]


def _misfit(kind: str, name: str, what: str, attr: str) -> errors.ErrorItem:
    detail = f"{errors.AddedDataDoesNotFitError.default_detail} The {kind} {name!r} that was added {what}."
    return errors.ErrorItem(errors.AddedDataDoesNotFitError.code, detail, attr)


def _of_accounts(statement: str) -> TextClause:
    return text(statement).bindparams(bindparam("account_ids", type_=ARRAY(BigInteger)))


_LOCK_SUPPLIER = text("SELECT id FROM import_supplier WHERE id = :id FOR SHARE")

# In the order in which data is added to several accounts.
_LOCK_ACCOUNTS = text(f"""
    SELECT account.id, account_import_process_id, service_account_number, operations_team_id, erased_at,
           {IS_NEW} AS is_live
    FROM account JOIN import_supplier AS supplier ON supplier.id = import_supplier_id
    WHERE account_import_process_id = ANY (:process_ids) ORDER BY account.id FOR UPDATE OF account
""").bindparams(bindparam("process_ids", type_=ARRAY(BigInteger)))

_ABSORB_TRANSACTIONS = text(f"""
    WITH absorbed AS (
        SELECT id FROM "transaction" WHERE account_pk = :account_id AND transaction_id = ANY (:ids)
          AND period = '{TransactionPeriod.ADDED}'),
    line AS (DELETE FROM line_item WHERE transaction_pk IN (SELECT id FROM absorbed)),
    tax AS (DELETE FROM tax_item WHERE transaction_pk IN (SELECT id FROM absorbed))
    DELETE FROM "transaction" WHERE id IN (SELECT id FROM absorbed)
""")
_ABSORB_STATEMENTS = text(f"""
    DELETE FROM statement WHERE account_pk = :account_id AND statement_id = ANY (:ids)
      AND origin = '{StatementOrigin.ADDED}'
""")

#: What the codes of ledgers of the old version begin with until the new ones exist.
_ASIDE = "replaced "
_SET_LEDGERS_ASIDE = _of_accounts(f"""
    UPDATE ledger SET ledger_code = '{_ASIDE}' || ledger_code WHERE account_pk = ANY (:account_ids)
    RETURNING id
""")
_MOVE_TRANSACTIONS = text(f"""
    WITH moved AS (
        UPDATE "transaction" AS booking SET ledger_pk = fresh.id
        FROM ledger AS old JOIN ledger AS fresh
          ON fresh.account_pk = old.account_pk AND '{_ASIDE}' || fresh.ledger_code = old.ledger_code
        WHERE booking.ledger_pk = old.id AND old.id = ANY (:ledgers)
        RETURNING fresh.id, CASE WHEN type IN ('PAYMENT', 'CREDIT') THEN amount ELSE -amount END AS change)
    UPDATE ledger SET ledger_balance = ledger_balance + change
    FROM (SELECT id, sum(change) AS change FROM moved GROUP BY id) AS moved WHERE ledger.id = moved.id
""").bindparams(bindparam("ledgers", type_=ARRAY(BigInteger)))
_REMOVE_LEDGERS = text("DELETE FROM ledger WHERE id = ANY (:ledgers)").bindparams(
    bindparam("ledgers", type_=ARRAY(BigInteger))
)

_FIND_CUSTOMERS = _of_accounts("SELECT id FROM customer WHERE account_pk = ANY (:account_ids)")
# Locked, so that a message that is being sent keeps its outcome.
_LIST_CUSTOMERS = _of_accounts("""
    SELECT customer.id, account_pk, position, lower(nullif(customer.email, '')) AS email,
           sent.id AS email_id, sent.state
    FROM customer
    LEFT JOIN (SELECT id, customer_pk, state FROM customer_email
               WHERE customer_pk IN (SELECT id FROM customer WHERE account_pk = ANY (:account_ids))
               FOR UPDATE) AS sent ON sent.customer_pk = customer.id
    WHERE account_pk = ANY (:account_ids) ORDER BY account_pk, position
""")
_CUSTOMERS = bindparam("customers", type_=ARRAY(BigInteger))
_MOVE_EMAILS = text("""
    UPDATE customer_email SET customer_pk = moved.customer
    FROM unnest(:emails, :customers) AS moved (email, customer) WHERE id = moved.email
""").bindparams(bindparam("emails", type_=ARRAY(BigInteger)), _CUSTOMERS)
_REMOVE_EMAILS = text("DELETE FROM customer_email WHERE customer_pk = ANY (:customers)").bindparams(
    _CUSTOMERS
)
_REMOVE_CUSTOMERS = text("DELETE FROM customer WHERE id = ANY (:customers)").bindparams(_CUSTOMERS)
