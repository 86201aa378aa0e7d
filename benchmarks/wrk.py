"""The load generator: wrk, a C program that costs far less than what it asks (Debian: `apt install wrk`)."""

import json
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

_SCRIPT = Path(__file__).with_name("load.lua")


@dataclass(frozen=True, slots=True)
class Load:
    """What came of one round; latencies in milliseconds as the client saw them."""

    requests: int
    seconds: float
    #: Answers that were not 2xx.
    refused: int
    #: Requests without an answer.
    broken: int
    p50_ms: float
    p95_ms: float
    p99_ms: float
    mean_ms: float

    @property
    def rate(self) -> float:
        """Requests a second."""
        return self.requests / self.seconds


def require_wrk() -> None:
    """Exit with a sentence that says where wrk comes from, if it is not there."""
    if shutil.which("wrk") is None:
        sys.exit("The load generator wrk is missing: `apt install wrk` (Debian, Ubuntu), `brew install wrk`.")


def run_wrk(
    url: str,
    *,
    mode: str,
    seconds: float,
    clients: int,
    token: str,
    bodies: Path = Path("/dev/null"),
    first: int = 0,
    count: int = 1_000_000_000,
    faults: bool = False,
) -> Load:
    """Load on `url` for so long from so many clients; see load.lua for the modes.

    External account numbers are taken from `first` on, `count` of them. Exits where an answer was not the
    one that is measured, unless `faults` are expected.
    """
    threads = min(2, clients)
    command = [
        *("wrk", "--threads", str(threads), "--connections", str(clients)),
        *("--duration", f"{max(1, round(seconds))}s", "--timeout", "60s", "--script", str(_SCRIPT), url),
        *("--", mode, str(bodies), token, str(first), str(count // threads)),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    results = [line for line in done.stdout.splitlines() if line.startswith("RESULT ")]
    if done.returncode or not results:
        sys.exit(f"wrk failed on {url}:\n{done.stdout}\n{done.stderr}")
    load = Load(**json.loads(results[0].removeprefix("RESULT ")))
    if not faults and (load.refused or load.broken):
        sys.exit(f"{load.refused} requests of {load.requests} were refused, {load.broken} broken: {url}")
    return load
