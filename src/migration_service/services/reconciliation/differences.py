"""The results of a comparison: the accounts that differ, and the sums over all accounts and lines."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any
from uuid import UUID

from migration_payloads.normal_form import FieldDifference
from migration_service.states import Figure, FigureBucket

#: The currency of every amount of the interface.
CURRENCY = "EUR"

#: The data that reconciliation does not cover, described for people. All other data is compared.
NOT_COMPARED = (
    "the file as it was sent: how its values were written, and fields that the interface does not have",
    "data added to accounts later: for data added by batches, only counts and sums are compared",
    "the time of an account's creation",
    (
        "refused accounts of single requests: only the sender was told, and they are not kept unless an "
        "older version is staged or created"
    ),
    "the documents themselves: only their paths and locations are compared",
)

#: The most lines that a comparison names because they could not be read.
MOST_NAMED = 100
_NOTHING = Decimal(0)
#: Measures of a book that a comparison of accounts shows as one.
_TOGETHER = {"balance": "ledger_balances", "number": "transactions"}


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
class FigureTotals:
    """How the figures of the old system compare with the created accounts."""

    #: The file that was compared. None if there is none.
    upload_id: UUID | None = None
    #: The number of figures by `states.Figure` and `states.FigureBucket`.
    counts: dict[str, dict[str, int]] = field(default_factory=dict)
    #: The number of created accounts that have figures.
    compared: int = 0
    #: The number of accounts that are not created, although nobody said that they should not be.
    not_created: int = 0
    #: The numbers of differences, and of accounts with one that is not tolerated.
    differences: int = 0
    differing: int = 0

    def clear(self, upload_id: UUID) -> None:
        """Begin again, with another file."""
        self.upload_id, self.counts = upload_id, {}
        self.compared = self.not_created = self.differences = self.differing = 0

    def list_counts(self) -> list[dict[str, Any]]:
        """Return the numbers of each figure by bucket, as values for JSON."""
        buckets = {bucket: bucket.lower() for bucket in FigureBucket}
        return [
            {"figure": it, **{name: self.counts[it].get(bucket, 0) for bucket, name in buckets.items()}}
            for it in Figure
            if it in self.counts
        ]

    def add(self, figure: str, bucket: str, number: int = 1) -> None:
        """Count figures in a bucket."""
        buckets = self.counts.setdefault(figure, {})
        buckets[bucket] = buckets.get(bucket, 0) + number

    def include(self, other: "FigureTotals") -> None:
        """Add those of other accounts."""
        for figure, buckets in other.counts.items():
            for bucket, number in buckets.items():
                self.add(figure, bucket, number)
        self.upload_id = self.upload_id or other.upload_id
        self.compared += other.compared
        self.not_created += other.not_created
        self.differences += other.differences
        self.differing += other.differing


@dataclass(slots=True)
class Totals:
    """The sums over the accounts and lines of a comparison, which grow with each of its pieces."""

    #: The staged and created sums of each measure over the compared accounts: counts, and amounts in euros.
    measures: dict[str, tuple[Decimal, Decimal]] = field(default_factory=dict)
    #: The sums of each measure of the book by what became of it; the parts are those of `BookTotal`.
    parts: dict[str, dict[str, Decimal]] = field(default_factory=dict)
    #: The number of created accounts whose values were all compared.
    compared: int = 0
    #: The number of created accounts without anything to compare with, because they were erased, or differed
    #: when their payload was removed. They count as accounts, but in no other measure.
    not_comparable: int = 0
    #: Of these, the erased ones.
    erased: int = 0
    #: The number of created accounts that differ from their staged payload.
    differing: int = 0
    #: The number of added lines without a readable text, and the first of them: batch and line number.
    not_comparable_lines: int = 0
    named_lines: list[tuple[UUID, int]] = field(default_factory=list)
    #: Among the lines that were not staged: those that are no JSON, and amounts that are no numbers.
    unreadable_lines: int = 0
    unreadable_amounts: int = 0
    #: The comparison with the figures of the old system.
    figures: FigureTotals = field(default_factory=FigureTotals)

    @property
    def created_clean(self) -> bool:
        """Return whether at least one account or added item was compared, and nothing differs."""
        added = any(staged for measure, (staged, _) in self.measures.items() if measure != "accounts")
        return (self.compared > 0 or added) and not self.differing

    def add(self, measure: str, staged: Decimal, created: Decimal) -> None:
        """Add the sums of one page of compared accounts."""
        before = self.measures.get(measure, (_NOTHING, _NOTHING))
        self.measures[measure] = (before[0] + staged, before[1] + created)

    def add_part(self, part: str, values: Mapping[str, Decimal]) -> None:
        """Add the measures of some accounts or lines to a part of the book."""
        sums = self.parts.setdefault(part, {})
        for measure, value in values.items():
            sums[measure] = sums.get(measure, _NOTHING) + value

    def add_unreadable_line(self, batch_id: UUID, line_number: int) -> None:
        """Count a line of added data that cannot be compared, and name the first ones."""
        self.not_comparable_lines += 1
        if len(self.named_lines) < MOST_NAMED:
            self.named_lines.append((batch_id, line_number))

    def include(self, other: "Totals") -> None:
        """Add the sums of other accounts and lines."""
        for measure, sums in other.measures.items():
            self.add(measure, *sums)
        for part, values in other.parts.items():
            self.add_part(part, values)
        for batch_id, line_number in other.named_lines:
            self.add_unreadable_line(batch_id, line_number)
        self.not_comparable_lines += other.not_comparable_lines - len(other.named_lines)
        self.compared += other.compared
        self.not_comparable += other.not_comparable
        self.erased += other.erased
        self.differing += other.differing
        self.figures.include(other.figures)

    def list_measures(self) -> list[Difference]:
        """Return the sums of each measure in display order."""
        return join_measures((measure, *sums) for measure, sums in self.measures.items())

    def describe_clean(self) -> str:
        """Return the sentence shown if nothing differs. It claims no more than what was compared."""
        others = ""
        if self.not_comparable:
            others += f" {_count(self.not_comparable, 'account')} could not be compared: the staged payload"
            others += " was removed."
        if self.not_comparable_lines:
            others += f" {_count(self.not_comparable_lines, 'line')} of added data could not be compared."
        if self.compared:
            accounts = _count(self.compared, "account")
            clean = "" if others else "The created accounts are clean: "
            return f"{clean}{'Every' if others else 'every'} value of {accounts} is as it was staged.{others}"
        if self.created_clean:
            return f"The added data is clean: its counts and sums are those of the lines.{others}"
        return f"Nothing was compared.{others}"


def join_measures(sums: Iterable[tuple[str, Decimal, Decimal]]) -> list[Difference]:
    """Return measures of a comparison in display order: balances and transactions of all kinds as one."""
    joined: defaultdict[str, list[Decimal]] = defaultdict(lambda: [_NOTHING, _NOTHING])
    for measure, staged, created in sums:
        kind, _, of = measure.partition(" of ")
        both = joined[_TOGETHER.get(kind, measure) if of else measure]
        both[0] += staged
        both[1] += created
    order = sorted(joined, key=lambda it: (it != "accounts", it.startswith("added "), it))
    return [Difference(measure, *joined[measure]) for measure in order]


def _count(number: int, what: str) -> str:
    return f"1 {what}" if number == 1 else f"{number:,} {what}s"
