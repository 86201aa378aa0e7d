"""Everything that is measured: `make bench`, which creates the peers' environment. `--help` lists it."""

import sys
from collections.abc import Callable

import click

from benchmarks import chaos, neighbours, report
from benchmarks.bench import FULL, QUICK, Bench, Row
from benchmarks.compare import compare_checkouts
from benchmarks.measures import batches, client, growth, queues, reading, single
from benchmarks.prepare import running_bench, say
from benchmarks.probes import PROBES

#: In this order, because the last one fills the tables.
MEASURES: dict[str, Callable[[Bench], Row | list[Row]]] = {
    "stage": single.measure_staging,
    "validate": single.measure_validation,
    "process-one": single.measure_one_client,
    "process-many": single.measure_many_clients,
    "status": single.measure_status,
    "client": client.measure_client,
    "check": batches.measure_checking,
    "import": batches.measure_import,
    "reconcile": batches.measure_reconciliation,
    "added-data": batches.measure_added_data,
    "undo": batches.measure_undo,
    "memory": reading.measure_memory,
    "events": reading.measure_feed,
    "queues": queues.measure_queues,
    "pinned": queues.measure_pinned_horizon,
    "growth": growth.measure_growth,
    "list": reading.measure_list,
}


@click.group(invoke_without_command=True)
@click.option("--quick", is_flag=True, help="Fewer and shorter rounds, smaller tables.")
@click.option("--only", multiple=True, type=click.Choice([*MEASURES, *PROBES]), help="Measure only this.")
@click.option("--compare", metavar="REF", help="Measure this checkout beside that of a branch or commit.")
@click.option("--rounds", default=5, type=click.IntRange(2), help="Rounds of --compare; 5 by default.")
@click.option("--write", is_flag=True, help="Write the results into docs/performance.md.")
@click.pass_context
def main(
    context: click.Context,
    *,
    quick: bool,
    only: tuple[str, ...],
    compare: str | None,
    rounds: int,
    write: bool,
) -> None:
    """Measure the service and its peers on this machine. Compare ratios of one run."""
    if context.invoked_subcommand:
        return
    extent = QUICK if quick else FULL
    if compare:
        names = [name for name in PROBES if not only or name in only]
        table = compare_checkouts(compare, names, extent, rounds, quick=quick)
        sys.stdout.write(f"{report.describe_machine()}\n\n{table}\n")
        return
    rows: list[Row] = []
    say("starting servers, the service and its peers ...")
    with running_bench(extent, 500 if quick else 2_000, peers=True) as bench:
        for name, measure in MEASURES.items():
            if not only or name in only:
                say(f"measuring {name} ...")
                measured = measure(bench)
                rows += measured if isinstance(measured, list) else [measured]
    sys.stdout.write(f"{report.describe_machine()}\n\n{report.format_results(rows)}\n\n")
    sys.stdout.write(f"{report.format_costs(rows)}\n")
    say(f"written: {report.write_results(rows, extent)}")
    if write:
        report.publish_results()


main.add_command(neighbours.main)
main.add_command(chaos.main)


if __name__ == "__main__":
    main()
