"""The results, as a table for people and as a JSON file for programs."""

import json
import os
import platform
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.bench import Extent, Row

_RESULTS = Path(__file__).parent / "results"


def format_table(rows: list[Row]) -> str:
    """Return the rows as a table in Markdown."""
    lines = [
        "| what | ours | beside it | goal | measured | |",
        "|---|---:|---:|---|---:|---|",
    ]
    for row in rows:
        peer = f"{_number(row.peer)} {row.unit} ({row.peer_name})" if row.peer is not None else ""
        lines.append(
            f"| {row.what} | {_number(row.ours)} {row.unit} | {peer} | {row.goal} | {_measured(row)} | "
            f"{'reached' if row.reached else 'NOT REACHED'} |"
        )
    return "\n".join(lines)


def _measured(row: Row) -> str:
    if "difference" in row.more:
        return f"{row.more['difference']:+.1f} {row.unit}"
    if "ratio" in row.more:
        return f"{row.more['ratio']:.2f} x"
    return ""


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.2f}" if value < 10 else f"{value:.1f}"


def describe_machine() -> str:
    """Return the processors, the memory, the system and the Python version."""
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return (
        f"{os.cpu_count()} cores ({_processor()}), {pages / 2**30:.0f} GB, {platform.system()} "
        f"{platform.release()}, Python {platform.python_version()}"
    )


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except FileNotFoundError:
        return platform.processor() or "unknown"
    return next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), "unknown")


def write_results(rows: list[Row], extent: Extent) -> Path:
    """Write all measurements of each round to results/latest.json."""
    _RESULTS.mkdir(exist_ok=True)
    file = _RESULTS / "latest.json"
    content = {
        "measured_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": describe_machine(),
        "load_average_at_the_end": os.getloadavg(),
        "extent": asdict(extent),
        "rows": [asdict(row) for row in rows],
    }
    file.write_text(json.dumps(content, indent=2) + "\n")
    return file
