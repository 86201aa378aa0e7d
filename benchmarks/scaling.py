"""How throughput grows with more processes: `python -m benchmarks.scaling`.

The results are in docs/operators/scaling.md. Accounts are staged with one to four web processes, and created
with one to four worker processes. The other kind has two processes each time. Also measured are the processor
time of each part for a request, and the connections to PostgreSQL.
"""

import sys
from dataclasses import replace
from statistics import median

import psycopg

from benchmarks import probes
from benchmarks.bench import QUICK
from benchmarks.prepare import running_bench
from benchmarks.wrk import require_wrk
from migration_service_local.up.options import Scale

_ROUNDS, _SECONDS = 3, 3
_CONNECTIONS = (
    "SELECT application_name, count(*) FROM pg_stat_activity "
    "WHERE application_name LIKE 'migration-%' GROUP BY 1 ORDER BY 1"
)


def main() -> None:
    """Measure and print a line for each number of processes."""
    require_wrk()
    usual = Scale(web_workers=2, interactive_workers=2, batch_workers=1)
    most = int(sys.argv[1]) if len(sys.argv) > 1 else 4
    for processes in range(1, most + 1):
        _measure("web", replace(usual, web_workers=processes))
    for processes in range(1, most + 1):
        _measure("worker", replace(usual, interactive_workers=processes))


def _measure(kind: str, scale: Scale) -> None:
    probe = probes.stage if kind == "web" else probes.process_many
    with running_bench(QUICK, 500, scale=scale) as bench:
        probe(bench, 1)
        readings = [probe(bench, _SECONDS) for _ in range(_ROUNDS)]
        with psycopg.connect(bench.stack.settings.database_url) as connection:
            connections: dict[str, int] = dict(connection.execute(_CONNECTIONS).fetchall())
    processes = scale.web_workers if kind == "web" else scale.interactive_workers
    rate, p50, p95 = (
        median(getattr(each, name) for each in readings) for name in ("rate", "p50_ms", "p95_ms")
    )
    sys.stdout.write(
        f"{processes} {kind}: {rate:.0f}/s, p50 {p50:.0f} ms, p95 {p95:.0f} ms, connections {connections}\n"
    )
    sys.stdout.write(f"  processor time of a request, in ms: {readings[-1].costs}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
