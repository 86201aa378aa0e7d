"""The results of a reconciliation: the accounts that differ, and the sums over all accounts."""

from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from migration_payloads.normal_form import FieldDifference

#: The currency of every amount of the interface.
CURRENCY = "EUR"

#: The data that reconciliation does not cover, described for people. All other data is compared.
NOT_COMPARED = (
    "the file as it was sent: how its values were written, and fields that the interface does not have",
    "data added to accounts later: for data added by batches, only counts and sums are compared",
    "the operations team of an account, and the time of its creation",
    (
        "refused accounts of single requests: only the sender was told, and they are not kept unless an "
        "older version is staged or created"
    ),
    "the documents themselves: only their paths and locations are compared",
)


def is_amount(measure: str) -> bool:
    """Return whether a measure is an amount in euros rather than a count."""
    return ("amount" in measure or "balance" in measure) and not measure.endswith("in cents")


@dataclass(frozen=True, slots=True)
class Difference:
    """A measure whose staged and created values differ in an account."""

    measure: str
    staged: Decimal
    created: Decimal


@dataclass(frozen=True, slots=True)
class AccountDifference:
    """An account that differs from its staged payload."""

    external_account_number: str
    service_account_number: str | None
    #: The counts and sums that differ. Empty if only values that are not added up differ.
    differences: list[Difference]
    #: The values that differ. Empty if the account does not exist.
    values: list[FieldDifference] = field(default_factory=list)


@dataclass(slots=True)
class Totals:
    """The sums over the created accounts. They are complete once `find_differences` has ended."""

    #: The staged and created sums of each measure: counts, and amounts in euros.
    measures: dict[str, tuple[Decimal, Decimal]] = field(default_factory=dict)
    #: The number of created accounts whose values were all compared.
    compared: int = 0
    #: The number of created accounts without a payload to compare with, because it was erased or removed at
    #: the end of its retention period. They count as accounts, but in no other measure.
    not_comparable: int = 0
    #: The number of created accounts that differ from their staged payload.
    differing: int = 0

    @property
    def created_clean(self) -> bool:
        """Return whether at least one account or added item was compared, and nothing differs."""
        added = any(staged for measure, (staged, _) in self.measures.items() if measure != "accounts")
        return (self.compared > 0 or added) and not self.differing

    def describe_clean(self) -> str:
        """Return the sentence shown if nothing differs. It claims no more than what was compared."""
        others = ""
        if self.not_comparable:
            accounts = "1 account" if self.not_comparable == 1 else f"{self.not_comparable:,} accounts"
            others = f" {accounts} could not be compared: the staged payload was removed."
        if self.compared:
            accounts = "1 account" if self.compared == 1 else f"{self.compared:,} accounts"
            clean = "" if others else "The created accounts are clean: "
            return f"{clean}{'Every' if others else 'every'} value of {accounts} is as it was staged.{others}"
        if self.created_clean:
            return f"The added data is clean: its counts and sums are those of the lines.{others}"
        return f"Nothing was compared.{others}"

    def add(self, measure: str, staged: Decimal, created: Decimal) -> None:
        """Add the sums of one page."""
        before = self.measures.get(measure, (Decimal(0), Decimal(0)))
        self.measures[measure] = (before[0] + staged, before[1] + created)

    def to_dict(self, open_items: int) -> dict[str, Any]:
        """Return everything except the individual accounts, as values for JSON.

        `open_items` is the number of open items.
        """
        return {
            "totals": [Difference(measure, *sums) for measure, sums in self.measures.items()],
            "compared": self.compared,
            "not_comparable": self.not_comparable,
            "not_compared": NOT_COMPARED,
            "differing": self.differing,
            "created_clean": self.created_clean,
            "complete": not open_items,
            "clean": self.created_clean and not open_items,
        }
