"""The memory of a process that is idle again after the load."""

from benchmarks.bench import Bench, Row

_MEGABYTE = 1 << 20


def measure_memory(bench: Bench) -> list[Row]:
    """Measure the largest web process and the largest worker process in megabytes."""
    rows = []
    for name, program, most in (("web", "web", 115), ("worker", "interactive", 120)):
        sizes = [process.memory_info().rss / _MEGABYTE for process in bench.stack.processes(program)]
        rows.append(
            Row(
                f"memory of an idle {name} process",
                max(sizes),
                "MB",
                f"under {most}",
                max(sizes) < most,
                more={"sizes": sizes},
            )
        )
    return rows
