"""The load generator wrk, a C program that needs little processor time itself (Debian: `apt install wrk`)."""

import json
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

_SCRIPT = Path(__file__).with_name("load.lua")


@dataclass(frozen=True, slots=True)
class Load:
    """The result of one round. Latencies are in milliseconds, as measured by the client."""

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
        """Requests per second."""
        return self.requests / self.seconds


def require_wrk() -> None:
    """Exit with a message that says how to install wrk if it is missing."""
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
    """Send requests to `url` for `seconds` from `clients` clients. load.lua has the modes.

    `count` external account numbers are used, from `first` on. Exit if an answer has another status than
    expected, unless `faults` is set.
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
