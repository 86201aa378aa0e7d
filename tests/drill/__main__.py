"""`python -m drill`: exits with 1 if anything was lost, duplicated or wrong."""

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from drill.faults import FAULTS
from drill.inject import BUGS, find_injected_bugs
from drill.run import DrillOptions, run_drill, show
from support.servers import temporary_folder


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--seed", type=int, help="The same seed, the same accounts and faults. Default: another one.")
@click.option("--rounds", default=20, show_default=True, help="How many faults.")
@click.option(
    "--accounts", default=500, show_default=True, help="At least so many accounts, batches not counted."
)
@click.option("--clients", default=16, show_default=True, help="Suppliers at once.")
@click.option("--poisoned", default=2, show_default=True, help="Accounts that kill their worker.")
@click.option("--wait", default=3.0, show_default=True, help="Seconds that a process request waits.")
@click.option("--impatient", default=0.2, show_default=True, help="Share of accounts given up at a 429.")
@click.option("--recovery", default=60.0, show_default=True, help="Seconds to be well again after a fault.")
@click.option("--only", multiple=True, type=click.Choice(list(FAULTS)), help="Only this kind of fault.")
@click.option("--keep", is_flag=True, help="Keep the service's folder, with its log.")
@click.option(
    "--report", type=click.Path(path_type=Path), help="Write what did not hold to this file, as JSON."
)
@click.option("--inject", is_flag=True, help="Put known bugs into copies of the service; each must be found.")
@click.option("--bug", multiple=True, type=click.Choice(list(BUGS)), help="Only this bug, with --inject.")
def main(*, inject: bool, bug: tuple[str, ...], keep: bool, report: Path | None, **options: Any) -> None:
    """Run the service, cause random faults under load, and count what was lost."""
    console = Console(width=170, highlight=False)
    if inject:
        sys.exit(0 if find_injected_bugs(bug, console) else 1)
    if options["seed"] is None:
        del options["seed"]
    chosen, folder = DrillOptions(**options), temporary_folder()
    try:
        verdict = run_drill(chosen, folder, console)
    finally:
        if keep:
            console.print(f"The service's folder: {folder}")
        else:
            shutil.rmtree(folder)
    show(verdict, chosen, console)
    if report:
        report.write_text(json.dumps({line.promise: line.losses for line in verdict.lines if line.losses}))
    sys.exit(1 if verdict.losses else 0)


if __name__ == "__main__":
    main()
