"""Rules for ledgers and their balances."""

import re
from collections.abc import Iterator

from migration_payloads.rules.account import HISTORICAL_TRANSACTIONS, OPEN_TRANSACTIONS, CheckedAccount, Path
from migration_payloads.rules.balances import ZERO, differ, sum_signed_amounts
from migration_payloads.rules.rule import Fault, Severity, find_future, find_repeated, rule
from migration_payloads.schemas.messages import shown

# Matches a list of meter points or addresses, or an item of one, for paths refused by the schema.
_HIDES_METER_POINTS = re.compile(r"supply_addresses(\.\d+(\.meter_points(\.\d+)?)?)?")
_IN_THE_BALANCE = ("last_settlement_balance", OPEN_TRANSACTIONS, HISTORICAL_TRANSACTIONS)


@rule(
    Severity.WARNING,
    remedy="Send the account's ledger with its balance and transactions. Without one, an empty ENERGY_LEDGER "
    "is opened.",
)
def ledger_missing(account: CheckedAccount) -> Iterator[Fault]:
    """The account has no ledger, and so no balance."""
    if not account.ledgers:
        yield (
            ("ledgers",),
            "The account has no ledger: send it, or its balance is zero and it has no transactions.",
        )


@rule(Severity.ERROR, remedy="Send the meter point too, or take its EAN out of the ledger.")
def unknown_ledger_identifiers(account: CheckedAccount) -> Iterator[Fault]:
    """An identifier of a ledger is not the EAN of a meter point of the account."""
    eans = {meter_point.get("ean") for _, meter_point in account.meter_points}
    # The identifier may belong to a meter point that is faulty, or is below a faulty object.
    if None in eans or any(map(_HIDES_METER_POINTS.fullmatch, account.faulty)):
        return
    for path, ledger in account.ledgers:
        for i, identifier in enumerate(ledger.get("identifiers", ())):
            if isinstance(identifier, str) and identifier not in eans:
                yield (
                    (*path, "identifiers", i),
                    f"{shown(identifier)} is not the EAN of a meter point of this account.",
                )


@rule(Severity.ERROR, remedy="Name each EAN once, in the ledger that its charges go to.")
def duplicate_identifiers_entries_found(account: CheckedAccount) -> Iterator[Fault]:
    """An identifier is named twice, in one ledger or in two."""
    first: dict[str, Path] = {}
    for path, ledger in account.ledgers:
        for i, identifier in enumerate(ledger.get("identifiers", ())):
            if not isinstance(identifier, str):
                continue
            here = (*path, "identifiers", i)
            if first.setdefault(identifier, here) is not here:
                there = ".".join(map(str, first[identifier]))
                yield here, f"{shown(identifier)} is already named by {there}: name it once."


@rule(Severity.ERROR, remedy="Send one ledger for each ledger_code, with all of its transactions.")
def duplicate_ledger_entries_found(account: CheckedAccount) -> Iterator[Fault]:
    """Two ledgers have the same ledger_code."""
    for path, code, first in find_repeated(account.ledgers, "ledger_code"):
        there = ".".join(map(str, first))
        yield (*path, "ledger_code"), f"{shown(code)} is already the code of {there}."


@rule(
    Severity.WARNING, remedy="Send open transactions dated after the closing date, older ones as historical."
)
def transaction_before_open_settlement_period(account: CheckedAccount) -> Iterator[Fault]:
    """An open transaction is not dated after the ledger's last settlement was closed."""
    for path, ledger in account.ledgers:
        closed = ledger.get("last_settlement_closing_date")
        if not closed:
            continue
        for i, transaction in enumerate(ledger.get(OPEN_TRANSACTIONS, ())):
            day = transaction.get("transaction_date")
            if day and day <= closed:
                yield (
                    (*path, OPEN_TRANSACTIONS, i, "transaction_date"),
                    f"The transaction is dated {day}, but the last settlement was closed on {closed}: "
                    "it belongs to the historical ones.",
                )


@rule(Severity.WARNING, remedy="Send transactions dated after the closing date as open ones.")
def historical_transaction_after_last_settlement_closing_date(account: CheckedAccount) -> Iterator[Fault]:
    """A historical transaction is dated after the ledger's last settlement was closed."""
    for path, ledger in account.ledgers:
        closed = ledger.get("last_settlement_closing_date")
        if not closed:
            continue
        for i, transaction in enumerate(ledger.get(HISTORICAL_TRANSACTIONS, ())):
            day = transaction.get("transaction_date")
            if day and day > closed:
                yield (
                    (*path, HISTORICAL_TRANSACTIONS, i, "transaction_date"),
                    f"The transaction is dated {day}, after the last settlement was closed on {closed}: "
                    "it belongs to the open ones.",
                )


@rule(
    Severity.WARNING,
    remedy="Send last_settlement_closing_date: the day up to which transactions are settled.",
)
def historical_transactions_require_last_settlement_closing_date(account: CheckedAccount) -> Iterator[Fault]:
    """A ledger has historical transactions, but does not say when its last settlement was closed."""
    for path, ledger in account.ledgers:
        if ledger.get(HISTORICAL_TRANSACTIONS) and not ledger.get("last_settlement_closing_date"):
            yield (
                (*path, "last_settlement_closing_date"),
                "The ledger has historical transactions: send the day on which they were settled.",
            )


@rule(Severity.WARNING, remedy="Correct one of the two dates: a settlement is issued once it is closed.")
def last_settlement_issued_before_closing_date(account: CheckedAccount) -> Iterator[Fault]:
    """A ledger's last settlement was issued before it was closed."""
    for path, ledger in account.ledgers:
        issued, closed = ledger.get("last_settlement_issue_date"), ledger.get("last_settlement_closing_date")
        if issued and closed and issued < closed:
            yield (
                (*path, "last_settlement_issue_date"),
                f"The last settlement was issued on {issued}, before it was closed on {closed}.",
            )


@rule(Severity.WARNING, remedy="Correct the date: only days that have passed can be settled.")
def last_settlement_closing_date_in_future(account: CheckedAccount) -> Iterator[Fault]:
    """A ledger's last settlement closes after today, so that no day is open for transactions."""
    field = "last_settlement_closing_date"
    return find_future(account, account.ledgers, field, "The last settlement closes on")


@rule(
    Severity.WARNING,
    remedy="Correct the balances or complete the open transactions. Credit is positive: PAYMENT and CREDIT "
    "add, CHARGE, SUPPLY_CHARGE and REPAYMENT subtract.",
)
def balance_mismatch_on_ledger_balance(account: CheckedAccount) -> Iterator[Fault]:
    """The last settlement's balance and the open transactions do not add up to the ledger's balance."""
    for path, ledger in account.ledgers:
        balance, settled = ledger.get("ledger_balance"), ledger.get("last_settlement_balance")
        transactions = ledger.get(OPEN_TRANSACTIONS)
        if account.touched and any(account.is_faulty(*path, field) for field in _IN_THE_BALANCE):
            continue
        if settled is None:
            # A ledger that was never settled starts at zero. A balance without transactions has a rule of its
            # own.
            if not transactions or ledger.get(HISTORICAL_TRANSACTIONS):
                continue
            settled = ZERO
        moved = sum_signed_amounts(transactions or ())
        if balance is not None and moved is not None and differ(settled + moved, balance):
            yield (
                (*path, "ledger_balance"),
                f"The ledger's balance is {balance:f}, but the last settlement's balance, {settled:f}, "
                f"and the open transactions, {moved:f}, make {settled + moved:f}. Credit is positive.",
            )


@rule(Severity.WARNING, remedy="Send last_settlement_balance, or the transactions that make the balance.")
def balance_without_transactions(account: CheckedAccount) -> Iterator[Fault]:
    """A ledger has a balance, but neither a last_settlement_balance nor a transaction that makes it."""
    for path, ledger in account.ledgers:
        if not ledger.get("ledger_balance") or any(ledger.get(field) for field in _IN_THE_BALANCE):
            continue
        if "last_settlement_balance" not in ledger and not account.is_touched(*path):
            yield (
                (*path, "ledger_balance"),
                f"Nothing makes the balance of {ledger['ledger_balance']:f}: send last_settlement_balance, "
                "or the transactions.",
            )


@rule(
    Severity.WARNING,
    remedy="Correct last_settlement_balance or complete the historical transactions. Credit is positive: "
    "PAYMENT and CREDIT add, CHARGE, SUPPLY_CHARGE and REPAYMENT subtract.",
)
def historical_balance_mismatch(account: CheckedAccount) -> Iterator[Fault]:
    """The historical transactions of a ledger do not add up to its last settlement's balance."""
    for path, ledger in account.ledgers:
        settled, transactions = ledger.get("last_settlement_balance"), ledger.get(HISTORICAL_TRANSACTIONS)
        if settled is None or not transactions:
            continue
        moved = sum_signed_amounts(transactions)
        if moved is not None and differ(moved, settled):
            yield (
                (*path, "last_settlement_balance"),
                f"The last settlement's balance is {settled:f}, but the historical transactions "
                f"make {moved:f}. Credit is positive.",
            )
