"""How throughput grows with more processes: `python -m benchmarks.scaling`.

The results are in docs/operators/scaling.md. Accounts are staged with one to four web processes, and created
with one to four worker processes. The other kind has two processes each time. Also measured are the processor
time of each part for a request, and the connections to PostgreSQL.
"""

import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from statistics import median

import psycopg

from benchmarks.bench import QUICK, STAGE, Bench
from benchmarks.payloads import make_payloads, write_payloads, write_process_body
from benchmarks.seed import set_up_caller, stage_templates
from benchmarks.stack import Stack
from benchmarks.wrk import Load, require_wrk
from migration_service_local.up.programs import Scale

_ROUNDS, _SECONDS = 3, 3
_CONNECTIONS = (
    "SELECT application_name, count(*) FROM pg_stat_activity "
    "WHERE application_name LIKE 'migration-%' GROUP BY 1 ORDER BY 1"
)


def main() -> None:
    """Measure and print a line for each number of processes."""
    require_wrk()
    texts = make_payloads(500)
    usual = Scale(web_workers=2, interactive_workers=2, batch_workers=1)
    most = int(sys.argv[1]) if len(sys.argv) > 1 else 4
    for processes in range(1, most + 1):
        _measure("web", replace(usual, web_workers=processes), texts)
    for processes in range(1, most + 1):
        _measure("worker", replace(usual, interactive_workers=processes), texts)


def _measure(kind: str, scale: Scale, texts: list[str]) -> None:
    with Stack(scale) as stack, tempfile.TemporaryDirectory() as folder:
        bench = Bench(
            stack=stack,
            extent=QUICK,
            token=set_up_caller(stack.settings),
            texts=texts,
            bodies=write_payloads(Path(folder) / "payloads.ndjson", texts),
            process_body=write_process_body(Path(folder) / "process.json"),
            peer_port=0,
            templates=stage_templates(stack.settings, texts),
        )
        stack.start_service()
        _load(bench, kind)
        before = _processor_seconds(stack)
        loads = [_load(bench, kind) for _ in range(_ROUNDS)]
        after = _processor_seconds(stack)
        with psycopg.connect(stack.settings.database_url) as connection:
            connections: dict[str, int] = dict(connection.execute(_CONNECTIONS).fetchall())
    processes = scale.web_workers if kind == "web" else scale.interactive_workers
    rate, p50, p99 = (median(getattr(load, name) for load in loads) for name in ("rate", "p50_ms", "p99_ms"))
    sys.stdout.write(
        f"{processes} {kind}: {rate:.0f}/s, p50 {p50:.0f} ms, p99 {p99:.0f} ms, connections {connections}\n"
    )
    requests = sum(load.requests for load in loads)
    costs = {name: round((after[name] - before[name]) / requests * 1000, 2) for name in after}
    sys.stdout.write(f"  processor time of a request, in ms: {costs}\n")
    sys.stdout.flush()


def _processor_seconds(stack: Stack) -> dict[str, float]:
    """Return the processor time of each part so far. It does not depend on other work of the machine."""
    return {
        name: sum(sum(process.cpu_times()[:2]) for process in stack.processes(name))
        for name in ("web", "interactive", "postgres", "valkey")
    }


def _load(bench: Bench, kind: str) -> Load:
    if kind == "web":
        return bench.stage(bench.url + STAGE, seconds=_SECONDS, clients=16)
    return bench.process(seconds=_SECONDS, clients=64, expected_rate=700)


if __name__ == "__main__":
    main()
