"""The sign of money: a balance is positive where the customer has credit.

PAYMENT and CREDIT add to it; CHARGE, SUPPLY_CHARGE and REPAYMENT take from it. Amounts are in euros, and
positive in the ordinary case; one that is negative (a correction) works the other way round.
"""

from collections.abc import Iterable
from decimal import Decimal
from typing import Any

#: Sums and products may be off by so much, because each amount was rounded to a cent.
HALF_A_CENT = Decimal("0.005")
ZERO = Decimal(0)

_ADD_TO_BALANCE = frozenset({"PAYMENT", "CREDIT"})


def signed_amount(transaction: dict[str, Any]) -> Decimal:
    """What the transaction (section 2.5) does to the balance of its ledger, in euros.

    Raises KeyError where it has no amount or no type.
    """
    amount: Decimal = transaction["amount"]
    return amount if transaction["type"] in _ADD_TO_BALANCE else amount.copy_negate()


def sum_signed_amounts(transactions: Iterable[dict[str, Any]]) -> Decimal | None:
    """What they do to the balance together, in euros; None if one has no amount or no type."""
    total = ZERO
    try:
        for transaction in transactions:
            total += signed_amount(transaction)
    except KeyError:
        return None
    return total


def differ(one: Decimal, other: Decimal) -> bool:
    """Whether two amounts are more than half a cent apart."""
    return abs(one - other) > HALF_A_CENT
