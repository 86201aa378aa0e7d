"""Takes docs/images/flower.png: `python tools/flower_screenshot.py`.

It starts the whole service in a temporary folder, migrates a sample book, takes a picture of Flower with a
browser, and stops everything.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from urllib.parse import quote

import requests
from scratch_service import SECONDS, find_chromium, running_service, wait_until

from migration_service.tasks.names import RUN_CHUNK

ROOT = Path(__file__).resolve().parent.parent
PICTURE = ROOT / "docs/images/flower.png"
#: A fifth of them have a task each, and the others are a batch. Maintenance tasks run between them.
ACCOUNTS = 1_000
WINDOW = (1700, 1020)

# Everything that would use the network is off.
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
    """Run the service, and take the picture."""
    if (browser := find_chromium()) is None:
        sys.exit("Chromium is not installed. Run: apt-get install chromium-headless-shell")
    with tempfile.TemporaryDirectory(prefix="flower-screenshot-") as folder:
        Path(folder).chmod(0o711)
        with running_service(Path(folder) / "home", ACCOUNTS) as settings:
            login = (settings["FLOWER_USER"], settings["FLOWER_PASSWORD"])
            tasks = f"{settings['FLOWER_URL']}/api/tasks"
            wait_until(lambda: count_chunks(tasks, login) >= 3, "the sample book in Flower")
            PICTURE.parent.mkdir(parents=True, exist_ok=True)
            user, password = map(quote, login)
            address = settings["FLOWER_URL"].replace("://", f"://{user}:{password}@")
            take_picture(browser, f"{address}/tasks", PICTURE)
    print(f"{PICTURE.relative_to(ROOT)}: {PICTURE.stat().st_size} bytes")


def count_chunks(url: str, login: tuple[str, str]) -> int:
    """Return how many finished tasks of batches Flower shows."""
    try:
        found = requests.get(url, params={"taskname": RUN_CHUNK, "state": "SUCCESS"}, auth=login, timeout=5)
    except requests.ConnectionError:
        return 0
    return len(found.json()) if found.ok else 0


def take_picture(browser: str, url: str, file: Path) -> None:
    """Return the picture of `url` after its scripts have run."""
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


if __name__ == "__main__":
    main()
