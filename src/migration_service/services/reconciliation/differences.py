"""What a reconciliation finds: accounts that differ, and the sums over all of them."""

from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from migration_service.services.imports.field_differences import FieldDifference

#: The currency of every amount of the interface.
CURRENCY = "EUR"

#: What reconciliation does not cover, for people. Everything else of the created accounts is compared.
NOT_COMPARED = (
    "the file as it was sent: how its values were written, and fields that the interface does not have",
    "data that was added to accounts later: of what batches added, only counts and sums are compared",
    "the operations team of an account, and the time of its creation",
    (
        "accounts that a single request sent and that were refused: only its sender was told, and they are "
        "not kept, unless an older version is staged or created"
    ),
    "the documents themselves: only their paths and locations are compared",
)


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
    #: The counts and sums that differ. There are none if only values differ that are not added up.
    differences: list[Difference]
    #: The values that differ. There are none if the account does not exist.
    values: list[FieldDifference] = field(default_factory=list)


@dataclass(slots=True)
class Totals:
    """The sums over the created accounts. They are complete once `find_differences` has ended."""

    #: For each measure the staged and the created sum: counts, and amounts in euros.
    measures: dict[str, tuple[Decimal, Decimal]] = field(default_factory=dict)
    #: Created accounts of which every value was compared.
    compared: int = 0
    #: Created accounts whose staged payload was removed after its retention time, or erased. There is nothing
    #: left to compare them with. They are among the accounts, and in no other measure.
    not_comparable: int = 0
    #: Created accounts that are not as they were staged.
    differing: int = 0

    @property
    def created_clean(self) -> bool:
        """Return whether an account, or what a batch added, was compared, and nothing of it differs."""
        added = any(staged for measure, (staged, _) in self.measures.items() if measure != "accounts")
        return (self.compared > 0 or added) and not self.differing

    def describe_clean(self) -> str:
        """Return the sentence for people if nothing differs. It says no more than what was compared."""
        others = ""
        if self.not_comparable:
            accounts = "1 account" if self.not_comparable == 1 else f"{self.not_comparable:,} accounts"
            others = f" {accounts} could not be compared: the staged payload was removed."
        if self.compared:
            accounts = "1 account" if self.compared == 1 else f"{self.compared:,} accounts"
            clean = "" if others else "The created accounts are clean: "
            return f"{clean}{'Every' if others else 'every'} value of {accounts} is as it was staged.{others}"
        if self.created_clean:
            return f"What was added is clean: its counts and sums are those of the lines.{others}"
        return f"Nothing was compared.{others}"

    def add(self, measure: str, staged: Decimal, created: Decimal) -> None:
        """Add the sums of one page."""
        before = self.measures.get(measure, (Decimal(0), Decimal(0)))
        self.measures[measure] = (before[0] + staged, before[1] + created)

    def to_dict(self, open_items: int) -> dict[str, Any]:
        """Return everything except the single accounts, as values for JSON.

        `open_items` is how much of what was sent is open.
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
