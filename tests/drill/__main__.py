"""`python -m drill`: exits 1 where anything was lost, doubled or wrong."""

import shutil
import sys
from typing import Any

import click
from rich.console import Console

from drill.faults import FAULTS
from drill.run import DrillOptions, run_drill, show
from servers import temporary_folder


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--seed", default=1, show_default=True, help="The same seed, the same accounts and faults.")
@click.option("--rounds", default=20, show_default=True, help="How many faults.")
@click.option("--accounts", default=500, show_default=True, help="At least so many accounts.")
@click.option("--clients", default=16, show_default=True, help="Suppliers at once.")
@click.option("--limit", default=12, show_default=True, help="The concurrency limit.")
@click.option("--poisoned", default=2, show_default=True, help="Accounts that kill their worker.")
@click.option("--only", multiple=True, type=click.Choice(list(FAULTS)), help="Only this kind of fault.")
@click.option("--keep", is_flag=True, help="Keep the service's folder, with its log.")
def main(*, keep: bool, **options: Any) -> None:
    """Run the service, damage it at random under load, and count what was lost."""
    chosen = DrillOptions(**options)
    folder, console = temporary_folder(), Console(width=170, highlight=False)
    try:
        verdict = run_drill(chosen, folder, console)
    finally:
        if keep:
            console.print(f"The service's folder: {folder}")
        else:
            shutil.rmtree(folder)
    show(verdict, chosen, console)
    sys.exit(1 if verdict.losses else 0)


if __name__ == "__main__":
    main()
