"""The sign of money: a balance is positive if the customer has credit.

PAYMENT and CREDIT add to it. CHARGE, SUPPLY_CHARGE and REPAYMENT subtract from it. Amounts are in euros, and
normally positive. A negative one, which is a correction, has the opposite effect.
"""

from collections.abc import Iterable
from decimal import Decimal
from typing import Any

#: The accepted difference of sums and products, because each amount was rounded to a cent.
HALF_A_CENT = Decimal("0.005")
A_CENT = Decimal("0.01")
HALF = Decimal("0.5")
ZERO = Decimal(0)
ONE = Decimal(1)

_ADD_TO_BALANCE = frozenset({"PAYMENT", "CREDIT"})


def signed_amount(transaction: dict[str, Any]) -> Decimal:
    """Return the change that a transaction (section 2.5) makes to the balance of its ledger, in euros.

    Raise KeyError if it has no amount or no type.
    """
    amount: Decimal = transaction["amount"]
    return amount if transaction["type"] in _ADD_TO_BALANCE else amount.copy_negate()


def sum_signed_amounts(transactions: Iterable[dict[str, Any]]) -> Decimal | None:
    """Return their total change in euros, or None if one has no amount or no type."""
    try:
        return sum(map(signed_amount, transactions), ZERO)
    except KeyError:
        return None


def half_of_last_digit(amount: Decimal) -> Decimal:
    """Return how much rounding may have changed a number: half of its last digit, at most half a unit."""
    exponent = amount.as_tuple().exponent
    return HALF * Decimal(10) ** min(exponent, 0) if isinstance(exponent, int) else ZERO


def differ(one: Decimal, other: Decimal) -> bool:
    """Return whether two amounts differ by more than half a cent."""
    return abs(one - other) > HALF_A_CENT
