"""The tables for people and the JSON file for programs."""

import json
import os
import platform
import re
import sys
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

import psutil

from benchmarks.bench import Extent, Reading, Row, median_costs

#: The results of the last run.
RESULTS = Path(__file__).parent / "results" / "latest.json"
_DOCS = Path(__file__).parent.parent / "docs"
PAGE = _DOCS / "performance.md"
DATA = _DOCS / "performance.json"
_TABLE = re.compile(
    r"(?<=<!-- measured: `make bench ARGS=--write` writes this -->\n).*?(?=<!-- /measured -->\n)", re.DOTALL
)


def format_results(rows: list[Row]) -> str:
    """The rows as a table in Markdown."""
    lines = ["| what | ours | beside it | goal | measured |", "|---|---:|---:|---|---|"]
    for row in rows:
        peer = f"{_number(row.peer)} {row.unit} ({row.peer_name})" if row.peer is not None else ""
        lines.append(
            f"| {row.what} | {_number(row.ours)} {row.unit}{_p95(row.readings)} "
            f"| {peer}{_p95(row.peer_readings)} | {row.goal} "
            f"| {', '.join(filter(None, (_measured(row), _VERDICTS[row.reached])))} |"
        )
    return "\n".join(lines)


def format_costs(rows: list[Row]) -> str:
    """The processor time of one request or account in ms, as a table in Markdown."""
    lines = ["| processor time (ms) | ours | beside it |", "|---|---|---|"]
    for row in rows:
        if ours := _costs(row.readings):
            lines.append(f"| {row.what} | {ours} | {_costs(row.peer_readings)} |")
    return "\n".join(lines)


#: Programs with less of the processor time are not listed: most of them only do their idle work.
_LEAST_SHARE = 0.02
_VERDICTS = {True: "reached", False: "**not reached**", None: ""}


def _p95(readings: Sequence[Reading]) -> str:
    times = [reading.p95_ms for reading in readings if reading.p95_ms is not None]
    return f", p95 {_number(median(times))} ms" if times else ""


def _costs(readings: Sequence[Reading]) -> str:
    medians = median_costs(readings)
    total = sum(medians.values())
    texts = [f"{name} {cost:.2f}" for name, cost in medians.items() if cost >= _LEAST_SHARE * total > 0]
    return f"{total:.2f} ({', '.join(texts)})" if texts else ""


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
    model = re.search(r"^model name\s*: (.*)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    return (
        f"{os.cpu_count()} cores ({model[1] if model else platform.machine()}), "
        f"{psutil.virtual_memory().total / 2**30:.0f} GB, {platform.system()} {platform.release()}, "
        f"Python {platform.python_version()}"
    )


def write_results(rows: list[Row], extent: Extent) -> Path:
    """Write all measurements of each round to results/latest.json."""
    RESULTS.parent.mkdir(exist_ok=True)
    content = {
        "measured_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": describe_machine(),
        "load_average_at_the_end": os.getloadavg(),
        "extent": asdict(extent),
        "rows": [asdict(row) for row in rows],
    }
    RESULTS.write_text(json.dumps(content, indent=2) + "\n")
    return RESULTS


def publish_results() -> None:
    """Write the last results into docs/performance.md, and every round of them into docs/performance.json."""
    results = json.loads(RESULTS.read_text())
    PAGE.write_text(replace_table(PAGE.read_text(), results))
    DATA.write_text(json.dumps(results).replace('{"what"', '\n{"what"') + "\n")  # a line for each row


def replace_table(page: str, results: dict[str, Any]) -> str:
    """Return the page with the table of these results."""
    extent = results["extent"]
    machine = (
        f"{results['machine']}. {extent['rounds']} rounds of {extent['seconds']} seconds, load average "
        f"at the end {results['load_average_at_the_end'][0]:.1f}."
    )
    table = format_results([_row(row) for row in results["rows"]])
    table = re.sub(r"\(([a-g]): [^)]*\)", r"(\1)", table)  # the page says what each peer is
    replaced, count = _TABLE.subn(lambda _: f"\n{machine}\n\n{table}\n\n", page)
    if count != 1:
        sys.exit(f"{PAGE.name} must have the comments `measured` and `/measured` once.")
    return replaced


def _row(values: dict[str, Any]) -> Row:
    readings = {name: [Reading(**one) for one in values[name]] for name in ("readings", "peer_readings")}
    return Row(**(values | readings))
