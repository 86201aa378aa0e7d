"""Takes the pictures of the console in docs/images: `PYTHONPATH=tests python tools/console_screenshots.py`.

It starts the whole service in a temporary folder, migrates a sample book, rehearses and imports another one
with broken lines, and takes the pictures with Debian's Chromium while the first wave of a third book runs.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from migration_service.config import load_saved_settings
from support.browser import CHROMIUM, Visitor, open_browser
from support.servers import COMMAND, RunningService

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "docs/images"
SUPPLIER, TEAM = "SAMPLE_ENERGY", "Sample team"
SAMPLE, LINES = 400, 2_000
_LINES_PER_MINUTE = 300
_LARGE, _PHONE = {"width": 1280, "height": 860}, {"width": 390, "height": 844}


def main() -> None:
    """Run the service, and take the pictures."""
    if CHROMIUM is None:
        sys.exit("Chromium is not installed. Run: apt-get install chromium-headless-shell")
    with tempfile.TemporaryDirectory(prefix="console-screenshots-") as folder:
        Path(folder).chmod(0o711)
        home = Path(folder) / "home"
        with RunningService(home, "--sample", str(SAMPLE)) as service:
            service.wait_until_serving()
            rehearsal = _run_batch(home, folder, "dry-run", "Rehearsal, week 12", seed=12)
            book = _run_batch(home, folder, "import", "Book of week 12", seed=12)
            imported = _run(home, "batches", "results", book, "--status", "IMPORTED").splitlines()[0]
            account = json.loads(imported)["external_account_number"]
            _run(home, "reconcile", SUPPLIER)
            line = _failed_line(home, rehearsal, "invalid_phone_number")
            base = f"{load_saved_settings(home)['MIGRATION_SERVICE_WEB_URL']}/console"
            password = (home / "console-password").read_text()
            with open_browser() as browser:
                batch = _start_wave(home, folder)
                pictures: dict[str, tuple[str, dict[str, Any]]] = {
                    "overview": ("/", {}),
                    "batch": (f"/batches/{rehearsal}/", {}),
                    "line": (f"/batches/{rehearsal}/lines/{line}/", {}),
                    "supplier": (f"/suppliers/{SUPPLIER}/", {"color_scheme": "dark"}),
                    "waves": ("/waves/", {}),
                    "sign-off": (f"/suppliers/{SUPPLIER}/sign-off/", {}),
                    "account": (f"/suppliers/{SUPPLIER}/accounts/{account}/?tab=ledgers", {}),
                    "phone": (f"/batches/{batch}/", {"viewport": _PHONE}),
                }
                for name, (path, options) in pictures.items():
                    file = FOLDER / f"console-{name}.png"
                    with Visitor.arrive(browser, base, **({"viewport": _LARGE} | options)) as visitor:
                        visitor.log_in("admin", password.strip())
                        visitor.open(path)
                        visitor.page.screenshot(path=file)
                    print(f"{file.relative_to(ROOT)}: {file.stat().st_size} bytes")


def _run(home: Path, *arguments: str) -> str:
    """Run a command of the client, or `migration-service samples`."""
    command = COMMAND if arguments[0] == "samples" else COMMAND.with_name("migration-client")
    environment = {
        "MIGRATION_SERVICE_HOME": str(home),
        "MIGRATION_CLIENT_URL": load_saved_settings(home)["MIGRATION_SERVICE_WEB_URL"],
        "MIGRATION_CLIENT_KEY_FILE": str(home / "sample-api-key"),
        "PATH": "/usr/bin:/bin",
    }
    return subprocess.run(
        [str(command), *arguments], env=environment, check=False, capture_output=True, text=True
    ).stdout


def _run_batch(home: Path, folder: str, mode: str, name: str, *, seed: int) -> str:
    file = f"{folder}/book.ndjson"
    book = ("samples", str(LINES), "--supplier", SUPPLIER, "--seed", str(seed), "--broken-share", "0.03")
    _run(home, *book, "--output", file)
    order = ("--supplier", SUPPLIER, "--team", TEAM, "--mode", mode, "--name", name, "--json")
    batch_id = str(json.loads(_run(home, "batches", "start", file, *order))["batch_id"])
    _run(home, "batches", "watch", batch_id, "--json")
    return batch_id


def _start_wave(home: Path, folder: str) -> str:
    """Plan waves, and start the first one, which takes minutes. Return the id of its batch."""
    _run_batch(home, folder, "stage", "Book of week 13", seed=13)
    night = {"start": "22:00", "end": "06:00", "time_zone": "Europe/Amsterdam"}
    first = {"name": "Pilot", "size": 600, "lines_per_minute": _LINES_PER_MINUTE}
    plan = {
        "import_supplier": SUPPLIER,
        "operations_team_name": TEAM,
        "name": "Book of week 13",
        "waves": [first, {"size": 700, "window": night}, {"rest": True, "window": night}],
    }
    file = Path(folder) / "plan.json"
    file.write_text(json.dumps(plan))
    made = json.loads(_run(home, "waves", "plan", str(file), "--json"))
    _run(home, "waves", "start", made["plan_id"], "1")
    return str(made["waves"][0]["batch_id"])


def _failed_line(home: Path, batch_id: str, code: str) -> int:
    first = _run(home, "batches", "results", batch_id, "--status", "FAILED", "--code", code).splitlines()
    found = first or _run(home, "batches", "results", batch_id, "--status", "FAILED").splitlines()
    return int(json.loads(found[0])["line_number"])


if __name__ == "__main__":
    main()
