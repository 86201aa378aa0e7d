"""Runs what takes hours, one step after the other, and fails at the end if a step failed.

    python tools/night.py
    python tools/night.py --seed 5 --only drill

Every step has its own log in .make/night. `make night` runs this. docs/contributors/tests.md says what each
step is for.
"""

import argparse
import os
import secrets
import subprocess
import sys
import time
from datetime import timedelta
from pathlib import Path

ROOT = Path(__file__).parents[1]
LOGS = ROOT / ".make" / "night"
#: How many times all tests run in another order.
ORDERS = 10
#: How many times as many examples, compared with `make test`.
TIMES = 20
_PYTEST = (sys.executable, "-m", "pytest", "-q", "-n", "2", "--dist", "loadgroup")
_LONG = (*_PYTEST, "--timeout", "7200")


def steps_of(seed: int) -> dict[str, tuple[str, ...]]:
    """Return the commands of a night by name. The orders of the tests follow from `seed`."""
    return {
        "coverage": ("make", "coverage", f"ARGS=--randomly-seed={seed}"),
        "drill": ("make", "drill", f"ARGS=--seed {seed}"),
        "upgrade-drill": ("make", "upgrade-drill"),
        "exchange-drill": ("make", "exchange-drill"),
        "proof": ("make", "proof", "ARGS=--accounts 50000"),
        "install-check": ("make", "install-check"),
        "compose-check": ("make", "compose-check", "ARGS=--debian"),
        "kubernetes-containers": ("make", "kubernetes-containers", "ARGS=--debian"),
        "failover-drill": ("make", "failover-drill", "ARGS=--short"),
        "client": (
            *("env", "MIGRATION_SERVICE_CLIENT_FAULTS=20", *_LONG),
            *("tests/e2e/test_client_send.py", "tests/e2e/test_client_listen.py"),
        ),
        "programme": (
            *("env", "MIGRATION_SERVICE_PROGRAMME=5000", *_LONG),
            *("tests/e2e/test_programme.py", "tests/e2e/test_programme_by_client.py"),
        ),
        "webhooks": (
            *("env", "MIGRATION_SERVICE_WEBHOOK_EVENTS=50000", *_LONG),
            "tests/e2e/test_webhooks_for_real.py",
        ),
        "injected-bugs": ("make", "drill", "ARGS=--inject"),
        "fuzz": (
            *(*_LONG, "tests/api/test_fuzz.py", "tests/api/imports/test_stage.py"),
            *("tests/api/accounts/test_balances.py", "tests/unit"),
        ),
        "described": (*_LONG, "tests/e2e/test_described_interface.py"),
        **{f"order-{index}": (*_PYTEST, f"--randomly-seed={seed + index}") for index in range(1, ORDERS + 1)},
        "known-mistakes": (sys.executable, str(Path(__file__).with_name("known_mistakes.py"))),
    }


def run(name: str, command: tuple[str, ...]) -> bool:
    """Run a step, print a line about it, and return whether it succeeded."""
    log, started = LOGS / f"{name}.log", time.monotonic()
    environment = os.environ | (
        {"MIGRATION_SERVICE_FUZZ": str(TIMES)} if name in ("fuzz", "described") else {}
    )
    with log.open("wb") as output:
        done = subprocess.run(
            command, cwd=ROOT, env=environment, stdout=output, stderr=subprocess.STDOUT, check=False
        )
    took = timedelta(seconds=round(time.monotonic() - started))
    words = [line for line in log.read_text(errors="replace").splitlines() if any(map(str.isalpha, line))]
    sys.stdout.write(f"{'FAILED' if done.returncode else 'ok':<6} {name:<21} {took}: {(words or [''])[-1]}\n")
    sys.stdout.flush()
    return done.returncode == 0


def main() -> int:
    """Run the steps, print a line for each, and return 1 if one failed."""
    parser = argparse.ArgumentParser(description="Run what takes hours.")
    parser.add_argument("--only", default="", metavar="NAME", help="only steps whose names start like this")
    parser.add_argument("--seed", type=int, default=secrets.randbelow(1_000_000), help="repeat a night")
    parser.add_argument("--list", action="store_true", help="only list the steps")
    given = parser.parse_args()
    chosen = {name: it for name, it in steps_of(given.seed).items() if name.startswith(given.only)}
    if not chosen:
        parser.error(f"no step starts with {given.only}: {', '.join(steps_of(0))}")
    if given.list:
        sys.stdout.write("\n".join([*chosen, ""]))
        return 0
    LOGS.mkdir(parents=True, exist_ok=True)
    failed = [name for name, command in chosen.items() if not run(name, command)]
    sys.stdout.write(f"seed {given.seed}, failed: {', '.join(failed) or 'none'}; logs in {LOGS}\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
