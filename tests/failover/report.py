"""The table of all rounds, on the terminal and in docs/contributors/reliability.md."""

import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from rich.box import MARKDOWN
from rich.console import Console
from rich.table import Table

from drill.count import describe
from failover.run import Outcome
from failover.scenarios import SCENARIOS

PAGE = Path(__file__).parents[2] / "docs/contributors/reliability.md"
_HEADING = "| what fails | rounds | next write (s) | at worst | failed requests | lost | doubled |"
#: The table in the page: the line below its heading, and its rows.
_TABLE = re.compile(rf"{re.escape(_HEADING)}\n\|[- |:]+\|\n(?P<rows>(?:\|.*\n)*)")


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

    @property
    def goal(self) -> str:
        """Return the goals for the median and for the longest time, in seconds."""
        goals = SCENARIOS[self.name].goals
        return f"{goals[0]:g}, {goals[1]:g}" if goals else ""

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
    table = Table(
        *("what fails", "rounds", "next write (s)", "at worst", "goal"),
        *("failed", "requests", "lost", "named", "doubled", "wrong"),
        box=MARKDOWN,
    )
    bad = []
    for row in rows:
        bad += [it for it in row.rounds if not it.is_good]
        counts = ("failed", "requests", "lost", "named", "doubled", "wrong")
        table.add_row(
            *(row.title, str(len(row.rounds)), f"{row.middle():.1f}", f"{row.worst():.1f}"),
            row.goal + ("" if row.meets_goal() else " MISSED"),
            *(str(row.count(field)) for field in counts),
        )
    console.print(table)
    for outcome in bad:
        for what in ("lost", "named", "doubled", "wrong"):
            if getattr(outcome, what):
                console.print(f"{outcome.scenario}: {what}: {describe(getattr(outcome, what))}")
    return not bad and all(row.meets_goal() for row in rows)


def write(rows: Iterable[Row], page: str) -> str:
    """Return the page with these rows. Those of other scenarios stay as they are."""
    table = _TABLE.search(page)
    if not table:
        raise ValueError(f"The page has no table with this heading: {_HEADING}")
    lines = {line.split(" | ")[0].removeprefix("| "): line for line in table["rows"].splitlines()}
    lines |= {row.title: row.line() for row in rows}
    order = [Row(name, kind, []).title for kind in (True, False) for name in SCENARIOS]
    known = (lines[title] for title in order if title in lines)
    return page[: table.start("rows")] + "".join(f"{line}\n" for line in known) + page[table.end() :]
