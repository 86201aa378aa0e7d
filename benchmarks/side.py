"""One checkout of a comparison: starts its own servers and service, and answers each line of its input.

`compare` runs this module with the Python of the checkout, so that its own code is measured. A line has the
name of a probe and a number of seconds. The answer is the reading as JSON.
"""

import json
import sys
from dataclasses import asdict

from benchmarks.bench import FULL, QUICK
from benchmarks.prepare import running_bench
from benchmarks.probes import PROBES


def main(extent: str) -> None:
    """Answer lines until the input ends."""
    with running_bench(QUICK if extent == "quick" else FULL, 500) as bench:
        _answer({"ready": True})
        for line in sys.stdin:
            name, seconds = line.split()
            _answer(asdict(PROBES[name](bench, float(seconds))))


def _answer(value: object) -> None:
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
