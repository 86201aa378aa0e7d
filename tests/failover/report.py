"""The table of all rounds."""

from collections import defaultdict
from collections.abc import Iterable
from statistics import median

from rich.box import MARKDOWN
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
        *("failed", "requests", "lost", "named", "doubled", "wrong"),
        box=MARKDOWN,
    )
    good = True
    order = list(SCENARIOS)
    for (asynchronous, name), found in sorted(
        rows.items(), key=lambda row: (row[0][0], order.index(row[0][1]))
    ):
        seconds = [it.seconds for it in found]
        middle, worst, goals = median(seconds), max(seconds), SCENARIOS[name].goals
        failed = sum(it.failed for it in found)
        met = not goals or (middle <= goals[0] and worst <= goals[1])
        met &= not (failed and SCENARIOS[name].fails_nothing)
        good &= met and all(it.is_good for it in found)
        table.add_row(
            "asynchronous" if asynchronous else "synchronous",
            name,
            str(len(found)),
            f"{middle:.1f}",
            f"{worst:.1f}",
            "" if not goals else f"{goals[0]:g}, {goals[1]:g}" + ("" if met else " MISSED"),
            str(failed),
            str(sum(it.requests for it in found)),
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
