"""Rules for single transactions (section 2.5)."""

from collections.abc import Iterator

from migration_payloads.rules.account import CheckedAccount
from migration_payloads.rules.balances import A_CENT
from migration_payloads.rules.rule import Fault, Severity, find_future, find_repeated, rule
from migration_payloads.schemas.messages import shown

_SUPPLY_CHARGE_FIELDS = ("supply_type", "product_code", "line_items", "tax_items")
_OF_A_SUPPLY_CHARGE = frozenset(_SUPPLY_CHARGE_FIELDS)
_NEEDED_BY_A_SUPPLY_CHARGE = ("product_code", "supply_type", "line_items")


@rule(
    Severity.ERROR, remedy="Give each transaction of the account its own transaction_id, across all ledgers."
)
def duplicate_transaction_ids(account: CheckedAccount) -> Iterator[Fault]:
    """Two transactions of the account have the same transaction_id, in one ledger or in two."""
    for path, number, first in find_repeated(account.transactions, "transaction_id"):
        there = ".".join(map(str, first))
        yield (*path, "transaction_id"), f"{shown(number)} is already the transaction_id of {there}."


@rule(Severity.WARNING, remedy="Send the reason of each CHARGE and CREDIT.")
def missing_transaction_reason(account: CheckedAccount) -> Iterator[Fault]:
    """A CHARGE or CREDIT has no reason."""
    for path, transaction in account.charges_and_credits:
        if "reason" not in transaction:
            yield (*path, "reason"), f"A {transaction['type']} needs a reason."


@rule(Severity.WARNING, remedy="Send the payment_type of each PAYMENT and REPAYMENT.")
def missing_payment_type(account: CheckedAccount) -> Iterator[Fault]:
    """A PAYMENT or REPAYMENT does not say how it was paid."""
    for path, transaction in account.payments:
        if "payment_type" not in transaction:
            yield (*path, "payment_type"), f"A {transaction['type']} needs a payment_type."


@rule(Severity.WARNING, remedy="Send the amount without its sign: the type says which way the money went.")
def payment_amount_must_be_positive(account: CheckedAccount) -> Iterator[Fault]:
    """The amount of a PAYMENT or REPAYMENT is negative."""
    for path, transaction in account.payments:
        amount = transaction.get("amount")
        if amount is not None and amount < 0:
            yield (
                (*path, "amount"),
                f"The amount of a {transaction['type']} may not be negative, as {amount:f} is: "
                "the type says which way the money went.",
            )


@rule(Severity.WARNING, remedy="Send the amount that was booked, in euros with two decimals.")
def amount_with_fraction_of_a_cent(account: CheckedAccount) -> Iterator[Fault]:
    """The amount of a transaction has a fraction of a cent, which only line items may have."""
    for path, transaction in account.transactions:
        amount = transaction.get("amount")
        if amount is not None and amount % A_CENT:
            yield (*path, "amount"), f"The amount, {amount:f} euros, has a fraction of a cent."


@rule(Severity.WARNING, remedy="Send product_code, supply_type and line_items with each SUPPLY_CHARGE.")
def supply_charge_incomplete(account: CheckedAccount) -> Iterator[Fault]:
    """A SUPPLY_CHARGE lacks its product_code, its supply_type or its line items."""
    for path, transaction in account.supply_charges:
        for field in _NEEDED_BY_A_SUPPLY_CHARGE:
            if not transaction.get(field):
                yield (*path, field), f"A SUPPLY_CHARGE needs {field}."


@rule(
    Severity.WARNING,
    remedy="Leave the field out, or correct the type: supply_type, product_code, line_items and tax_items "
    "belong to a SUPPLY_CHARGE only, and reason does not.",
)
def field_not_allowed_for_type(account: CheckedAccount) -> Iterator[Fault]:
    """A transaction has a field that its type does not have."""
    for path, transaction in account.supply_charges:
        if "reason" in transaction:
            yield (*path, "reason"), "A SUPPLY_CHARGE has no reason: leave it out, or correct the type."
    for transactions in (account.charges_and_credits, account.payments):
        for path, transaction in transactions:
            if _OF_A_SUPPLY_CHARGE.isdisjoint(transaction):
                continue
            for field in _SUPPLY_CHARGE_FIELDS:
                if transaction.get(field):
                    yield (
                        (*path, field),
                        f"A {transaction['type']} has no {field}: leave it out, or correct the type.",
                    )


@rule(Severity.WARNING, remedy="Correct the date, or send the transaction once its day has come.")
def transaction_in_future(account: CheckedAccount) -> Iterator[Fault]:
    """A transaction is dated after today."""
    return find_future(account, account.transactions, "transaction_date", "The transaction is dated")
