"""`python -m failover.inside PLAN`: runs scenarios in the namespaces that `__main__` made."""

import json
import os
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console

from failover.namespaces import take_care_of_orphans
from failover.run import run_scenario
from failover.world import World

#: The file in the folder with a line for each outcome.
OUTCOMES = "outcomes.ndjson"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What to run with one kind of replication, and in which folder."""

    folder: str
    #: The Python that has Patroni.
    patroni: str
    names: list[str]
    synchronous: bool
    #: Whether the service reaches the database through pgbouncer.
    pooler: bool


def run(plan: Plan) -> None:
    """Start everything, and run one scenario after the other."""
    console = Console(width=180, highlight=False)
    kinds = {"synchronous": plan.synchronous, "pooler": plan.pooler}
    world = World(Path(plan.folder), Path(plan.patroni), **kinds)
    for name in plan.names:
        began = time.monotonic()
        outcome = run_scenario(world, name, synchronous=plan.synchronous)
        with Path(plan.folder, OUTCOMES).open("a") as lines:
            lines.write(json.dumps(asdict(outcome)) + "\n")
        console.print(
            f"{'synchronous' if plan.synchronous else 'asynchronous':<13} {name:<28} next write after "
            f"{outcome.seconds:5.1f} s, {outcome.failed} of {outcome.requests} failed, {outcome.created} "
            f"created, lost {len(outcome.lost)}, named {len(outcome.named)}, doubled {len(outcome.doubled)}, "
            f"wrong {len(outcome.wrong)} ({time.monotonic() - began:.0f} s)"
        )


if __name__ == "__main__":
    take_care_of_orphans()
    os.environ["NO_PROXY"] = "*"
    run(Plan(**json.loads(sys.argv[1])))
