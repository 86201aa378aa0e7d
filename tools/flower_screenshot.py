"""Takes docs/images/flower.png: `python tools/flower_screenshot.py`, with Debian's package chromium.

Starts the whole service in a folder of its own, lets it migrate a sample book, looks at Flower with a real
browser, and stops everything again.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

import requests

ROOT = Path(__file__).resolve().parent.parent
PICTURE = ROOT / "docs/images/flower.png"
ACCOUNTS = 60
WINDOW = (1600, 900)
SECONDS = 120

# Everything that would ask the outside world for something is off.
_BROWSER_OPTIONS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--hide-scrollbars",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


def main() -> None:
    """Run the service, take the picture."""
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        sys.exit("There is no chromium here: apt-get install chromium")
    with tempfile.TemporaryDirectory(prefix="flower-screenshot-") as folder:
        Path(folder).chmod(0o711)
        with running_service(Path(folder) / "home") as settings:
            login = (settings["FLOWER_USER"], settings["FLOWER_PASSWORD"])
            tasks = f"{settings['FLOWER_URL']}/api/tasks"
            wait_until(lambda: count_created(tasks, login) >= ACCOUNTS, "the sample book in Flower")
            PICTURE.parent.mkdir(parents=True, exist_ok=True)
            user, password = map(quote, login)
            address = settings["FLOWER_URL"].replace("://", f"://{user}:{password}@")
            take_picture(browser, f"{address}/tasks", PICTURE)
    print(f"{PICTURE.relative_to(ROOT)}: {PICTURE.stat().st_size} bytes")


@contextmanager
def running_service(home: Path) -> Iterator[dict[str, str]]:
    """`migration-service up` on this home folder; gives its saved settings."""
    command = Path(sys.executable).with_name("migration-service")
    arguments = [str(command), "up", "--home", str(home), "--sample", str(ACCOUNTS)]
    with (home.parent / "up.log").open("wb") as log:
        process = subprocess.Popen(arguments, stdout=log, stderr=subprocess.STDOUT)
    try:
        wait_until(lambda: (home / "settings.json").exists() or process.poll() is not None, "the service")
        yield json.loads((home / "settings.json").read_text())
    finally:
        process.terminate()
        process.wait(60)


def count_created(url: str, login: tuple[str, str]) -> int:
    """How many finished tasks Flower knows that created accounts."""
    try:
        found = requests.get(
            url, params={"taskname": "accounts.create_account", "state": "SUCCESS"}, auth=login, timeout=5
        )
    except requests.ConnectionError:
        return 0
    return len(found.json()) if found.ok else 0


def take_picture(browser: str, url: str, file: Path) -> None:
    """What the browser shows of `url` once its scripts have run."""
    with tempfile.TemporaryDirectory(prefix="flower-browser-") as profile:
        subprocess.run(
            [
                *(browser, *_BROWSER_OPTIONS, f"--user-data-dir={profile}"),
                *(f"--window-size={WINDOW[0]},{WINDOW[1]}", f"--screenshot={file}"),
                *("--virtual-time-budget=4000", url),
            ],
            check=True,
            capture_output=True,
            timeout=SECONDS,
        )


def wait_until(condition: Callable[[], bool], what: str) -> None:
    """Return as soon as `condition` is true; exit with a sentence if it is not in time."""
    deadline = time.monotonic() + SECONDS
    while not condition():
        if time.monotonic() > deadline:
            sys.exit(f"{what} did not come within {SECONDS} seconds.")
        time.sleep(0.5)


if __name__ == "__main__":
    main()
