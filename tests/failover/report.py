"""The table of all rounds."""

from collections import defaultdict
from collections.abc import Iterable
from statistics import median

from rich.console import Console
from rich.table import Table

from drill.count import describe
from failover.run import Outcome
from failover.scenarios import SCENARIOS


def show(outcomes: Iterable[Outcome], console: Console) -> bool:
    """Print a row for each scenario and kind of replication. Return True if all is as promised."""
    rows: dict[tuple[bool, str], list[Outcome]] = defaultdict(list)
    for outcome in outcomes:
        rows[not outcome.synchronous, outcome.scenario].append(outcome)
    table = Table(
        *("replication", "scenario", "rounds", "next write (s)", "at worst", "goal"),
        *("failed", "429", "requests", "lost", "named", "doubled", "wrong"),
    )
    good = True
    for (asynchronous, name), found in sorted(rows.items()):
        seconds = [it.seconds for it in found]
        middle, worst, goals = median(seconds), max(seconds), SCENARIOS[name].goals
        met = not goals or (middle <= goals[0] and worst <= goals[1])
        good &= met and all(it.is_good for it in found)
        table.add_row(
            "asynchronous" if asynchronous else "synchronous",
            name,
            str(len(found)),
            f"{middle:.1f}",
            f"{worst:.1f}",
            "" if not goals else f"{goals[0]:g}, {goals[1]:g}" + ("" if met else " MISSED"),
            *(str(sum(getattr(it, field) for it in found)) for field in ("failed", "refused", "requests")),
            *(
                str(sum(len(getattr(it, field)) for it in found))
                for field in ("lost", "named", "doubled", "wrong")
            ),
        )
    console.print(table)
    for outcome in (it for found in rows.values() for it in found if not it.is_good):
        for what in ("lost", "named", "doubled", "wrong"):
            if getattr(outcome, what):
                console.print(f"{outcome.scenario}: {what}: {describe(getattr(outcome, what))}")
    return good
