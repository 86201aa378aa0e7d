"""What a reconciliation finds: accounts that differ, and the sums over all of them."""

from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

#: The currency of every amount of the interface.
CURRENCY = "EUR"


def is_amount(measure: str) -> bool:
    """Return whether a measure is an amount in euros, and not a number of things."""
    return ("amount" in measure or "balance" in measure) and not measure.endswith("in cents")


@dataclass(frozen=True, slots=True)
class Difference:
    """A measure in which an account is not as it was staged."""

    measure: str
    staged: Decimal
    created: Decimal


@dataclass(frozen=True, slots=True)
class AccountDifference:
    """An account that is not as it was staged."""

    external_account_number: str
    service_account_number: str | None
    differences: list[Difference]


@dataclass(slots=True)
class Totals:
    """The sums over the created accounts. They are complete once `find_differences` has ended."""

    #: For each measure the staged and the created sum: counts, and amounts in euros.
    measures: dict[str, tuple[Decimal, Decimal]] = field(default_factory=dict)
    #: Created accounts whose staged payload was removed after its retention time. There is nothing left to
    #: compare them with. They are among the accounts, and in no other measure.
    not_comparable: int = 0
    #: Created accounts that are not as they were staged.
    differing: int = 0

    def add(self, measure: str, staged: Decimal, created: Decimal) -> None:
        """Add the sums of one page."""
        before = self.measures.get(measure, (Decimal(0), Decimal(0)))
        self.measures[measure] = (before[0] + staged, before[1] + created)

    def to_dict(self) -> dict[str, Any]:
        """Return everything except the single accounts, as values for JSON."""
        return {
            "totals": [Difference(measure, *sums) for measure, sums in self.measures.items()],
            "not_comparable": self.not_comparable,
            "differing": self.differing,
            "clean": not self.differing,
        }
