"""The table of all rounds, as docs/contributors/reliability.md has it."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median

from rich.console import Console

from drill.count import describe
from failover.run import Outcome
from failover.scenarios import SCENARIOS

_HEADING = """| what fails | rounds | next write (s) | at worst | failed requests | lost | doubled |
| --- | --- | --- | --- | --- | --- | --- |"""


@dataclass(frozen=True, slots=True)
class Row:
    """All rounds of a scenario with one kind of replication."""

    name: str
    synchronous: bool
    rounds: list[Outcome]

    @property
    def title(self) -> str:
        """Return what fails, for how long, and how."""
        lasts = SCENARIOS[self.name].lasts
        return (
            self.name
            + (f", for {lasts:g} s" if lasts else "")
            + ("" if self.synchronous else ", asynchronous")
        )

    def middle(self) -> float:
        """Return the median of the times."""
        return median(it.seconds for it in self.rounds)

    def worst(self) -> float:
        """Return the longest time."""
        return max(it.seconds for it in self.rounds)

    def count(self, field: str) -> int:
        """Return the sum of a number, or of the lengths of a list."""
        values = [getattr(it, field) for it in self.rounds]
        return sum(it if isinstance(it, int) else len(it) for it in values)

    def meets_goal(self) -> bool:
        """Return True if no time is longer than its goal, and nothing failed that must not."""
        scenario = SCENARIOS[self.name]
        in_time = not scenario.goals or (
            self.middle() <= scenario.goals[0] and self.worst() <= scenario.goals[1]
        )
        return in_time and not (self.count("failed") and scenario.fails_nothing)

    def line(self) -> str:
        """Return the row of the page."""
        lost = f"{self.count('lost'):,}" + (f", {self.count('named'):,} named" if self.count("lost") else "")
        cells = (
            *(self.title, str(len(self.rounds)), f"{self.middle():.1f}", f"{self.worst():.1f}"),
            *(f"{self.count('failed'):,} of {self.count('requests'):,}", lost, str(self.count("doubled"))),
        )
        return f"| {' | '.join(cells)} |"


def rows_of(outcomes: Iterable[Outcome]) -> list[Row]:
    """Return the rows in the order of SCENARIOS, first with synchronous replication."""
    rows: dict[tuple[bool, str], list[Outcome]] = defaultdict(list)
    for outcome in outcomes:
        rows[outcome.synchronous, outcome.scenario].append(outcome)
    return [
        Row(name, synchronous, rows[synchronous, name])
        for synchronous in (True, False)
        for name in SCENARIOS
        if (synchronous, name) in rows
    ]


def show(rows: Iterable[Row], console: Console) -> bool:
    """Print all rows, and what is wrong. Return True if all is as promised."""
    console.print(_HEADING)
    bad, missed = [], []
    for row in rows:
        console.print(row.line())
        bad += [it for it in row.rounds if not it.is_good]
        missed += [] if row.meets_goal() else [row]
    for row in missed:
        console.print(f"{row.title} misses its goals.")
    for outcome in bad:
        for what in ("lost", "named", "doubled", "wrong"):
            if getattr(outcome, what):
                console.print(f"{outcome.scenario}: {what}: {describe(getattr(outcome, what))}")
    return not bad and not missed
