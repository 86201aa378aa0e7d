"""A whole service in a temporary folder, with a migrated sample book, for tools."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

SECONDS = 120
COMMAND = Path(sys.executable).with_name("migration-service")


@contextmanager
def running_service(home: Path, sample: int) -> Iterator[dict[str, str]]:
    """Run `migration-service up` on this home folder, and yield its saved settings. Stop it at the end."""
    with (home.parent / "up.log").open("wb") as log:
        process = subprocess.Popen(
            [str(COMMAND), "up", "--home", str(home), "--sample", str(sample)],
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    try:
        saved = home / "settings.json"
        wait_until(lambda: saved.exists() or process.poll() is not None, "the service")
        if process.poll() is not None:
            sys.exit(f"The service did not start:\n{(home.parent / 'up.log').read_text()}")
        yield json.loads(saved.read_text())
    finally:
        process.terminate()
        process.wait(60)


def wait_until(condition: Callable[[], bool], what: str, seconds: float = SECONDS) -> None:
    """Return as soon as `condition` is true. Exit with a message if that takes longer than `seconds`."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            sys.exit(f"{what} did not come within {seconds:.0f} seconds.")
        time.sleep(0.5)


def find_chromium() -> str | None:
    """Return the path of an installed Chromium, or None."""
    names = ("chromium-headless-shell", "chromium", "google-chrome")
    return next(filter(None, map(shutil.which, names)), None)
