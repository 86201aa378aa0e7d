"""`python -m benchmarks [--quick] [--only NAME ...]`; `make bench` creates the peers' environment first."""

import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import click

from benchmarks import report
from benchmarks.bench import FULL, QUICK, Bench, Row
from benchmarks.measures import batches, growth, lists, memory, processing, staging
from benchmarks.payloads import make_payloads, write_payloads, write_process_body
from benchmarks.seed import set_up_caller, set_up_peer, stage_templates
from benchmarks.stack import PROCESSES, Stack, answers, peers_python
from benchmarks.wrk import require_wrk
from migration_service_local.servers.ports import random_free_port

#: In this order, because the last one fills the tables.
MEASURES: dict[str, Callable[[Bench], Row | list[Row]]] = {
    "stage": staging.measure_staging,
    "process-one": processing.measure_one_client,
    "process-many": processing.measure_many_clients,
    "status": staging.measure_status,
    "validate": batches.measure_validation,
    "import": batches.measure_import,
    "memory": memory.measure_memory,
    "growth": growth.measure_growth,
    "list": lists.measure_list,
}


@click.command()
@click.option("--quick", is_flag=True, help="Under two minutes: fewer and shorter rounds, smaller tables.")
@click.option("--only", multiple=True, type=click.Choice(list(MEASURES)), help="Measure only this.")
def main(quick: bool, only: tuple[str, ...]) -> None:
    """Measure the service and its peers on this machine. Compare ratios of one run."""
    require_wrk()
    peers_python()
    rows: list[Row] = []
    extent = QUICK if quick else FULL
    with Stack() as stack, tempfile.TemporaryDirectory() as folder:
        bench = _prepare(stack, Path(folder), 500 if quick else 2_000, quick)
        for name, measure in MEASURES.items():
            if not only or name in only:
                _say(f"measuring {name} ...")
                measured = measure(bench)
                rows += measured if isinstance(measured, list) else [measured]
    sys.stdout.write(f"{report.describe_machine()}\n\n{report.format_table(rows)}\n")
    _say(f"written: {report.write_results(rows, extent)}")


def _prepare(stack: Stack, folder: Path, payloads: int, quick: bool) -> Bench:
    _say("starting servers, the service and its peers ...")
    texts = make_payloads(payloads)
    mean = sum(map(len, texts)) / len(texts)
    _say(f"{len(texts)} payloads, {mean / 1000:.1f} KB in the mean")
    token = set_up_caller(stack.settings)
    templates = stage_templates(stack.settings, texts[:500])
    stack.start_service()
    peer_port = random_free_port()
    _start_peers(stack, peer_port, token)
    return Bench(
        stack=stack,
        extent=QUICK if quick else FULL,
        token=token,
        texts=texts,
        bodies=write_payloads(folder / "payloads.ndjson", texts),
        process_body=write_process_body(folder / "process.json"),
        peer_port=peer_port,
        templates=templates,
    )


def _start_peers(stack: Stack, port: int, token: str) -> None:
    schema = (Path(__file__).parent / "peers" / "schema.sql").read_text()
    set_up_peer(stack.settings, schema, token)
    servers = {"DATABASE_URL": stack.settings.database_url, "REDIS_URL": stack.settings.redis_url}
    stack.start_peer(
        "staging_api",
        [
            *("-m", "uvicorn", "staging_api:app", "--port", str(port), "--workers", str(PROCESSES)),
            *("--no-access-log", "--log-level", "warning"),
        ],
        servers,
        lambda: answers(port, "/health"),
    )
    stack.start_peer(
        "empty_task",
        [
            *("-m", "celery", "-A", "empty_task", "worker", "--loglevel", "WARNING"),
            *("-c", str(PROCESSES), "--without-gossip", "--without-mingle"),
        ],
        servers,
    )


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")


if __name__ == "__main__":
    main()
