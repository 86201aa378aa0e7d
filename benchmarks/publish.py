"""Writes the last results into the documentation: `python -m benchmarks.publish [FILE]`.

The table of docs/performance.md is between two comments. docs/performance.json has every round of it,
the time of the run and the processor time of each program.
"""

import json
import re
import sys
from pathlib import Path
from typing import Any

from benchmarks.bench import Reading, Row
from benchmarks.report import RESULTS, format_results

_DOCS = Path(__file__).parent.parent / "docs"
PAGE = _DOCS / "performance.md"
DATA = _DOCS / "performance.json"
_BEGIN = "<!-- measured: `python -m benchmarks.publish` writes this -->\n"
_END = "<!-- /measured -->"
_TABLE = re.compile(f"(?<={re.escape(_BEGIN)}).*?(?={_END})", re.DOTALL)


def replace_table(page: str, results: dict[str, Any]) -> str:
    """Return the page with the table of these results."""
    replaced, count = _TABLE.subn(lambda _: f"\n{_describe(results)}\n\n{_table(results)}\n\n", page)
    if count != 1:
        sys.exit(f"{PAGE.name} must have the comments `measured` and `/measured` once.")
    return replaced


def _describe(results: dict[str, Any]) -> str:
    extent = results["extent"]
    return (
        f"{results['machine']}. {extent['rounds']} rounds of {extent['seconds']} seconds, load average "
        f"at the end {results['load_average_at_the_end'][0]:.1f}."
    )


def _table(results: dict[str, Any]) -> str:
    table = format_results([_row(row) for row in results["rows"]])
    return re.sub(r"\(([a-g]): [^)]*\)", r"(\1)", table)  # the page says what each peer is


def _row(values: dict[str, Any]) -> Row:
    readings = {name: [Reading(**one) for one in values[name]] for name in ("readings", "peer_readings")}
    return Row(**(values | readings))


def main(file: str = str(RESULTS)) -> None:
    """Write the results of `file` into both files."""
    results = json.loads(Path(file).read_text())
    PAGE.write_text(replace_table(PAGE.read_text(), results))
    DATA.write_text(json.dumps(results).replace('{"what"', '\n{"what"') + "\n")  # a line for each row


if __name__ == "__main__":
    main(*sys.argv[1:])
