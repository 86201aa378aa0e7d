"""`migration-client send` while it, the service and the disk fail: each account is created once.

MIGRATION_SERVICE_CLIENT_FAULTS=100 makes a long run of it: 5,000 accounts of each kind.
"""

import json
import os
import re
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import pytest

from drill.faults import FAULTS, deal
from drill.scene import TEAM, Scene, numbered_accounts
from support.batch_client import ndjson
from support.client_command import start_command

pytestmark = pytest.mark.long

_FAULTS = int(os.environ.get("MIGRATION_SERVICE_CLIENT_FAULTS", "0"))
_COMMAND_KILLED, _DISK_FULL = "command killed", "disk full"
_LONG = (
    *(_COMMAND_KILLED,) * 8,
    *(_DISK_FULL,) * 2,
    *("web server killed", "one web process killed", "whole worker killed", "worker child killed"),
    *(
        "background worker killed",
        "Valkey killed, data kept",
        "Valkey killed, data wiped",
        "PostgreSQL killed",
    ),
)
_SHORT = (_COMMAND_KILLED, _DISK_FULL, "one web process killed", _COMMAND_KILLED)
#: By how much the clock of the command is wrong, each time that it is started.
_CLOCKS = ("", "-2h", "-400d", "+1h")


@dataclass
class Sending:
    """The sending of a book, through all faults."""

    scene: Scene
    book: Path
    beginning: str
    way: str
    chance: Random
    met: Counter[str] = field(default_factory=Counter)
    said: list[str] = field(default_factory=list)

    @property
    def journal(self) -> Path:
        return self.book.with_name(f"{self.book.name}.journal")

    def start(self, *, room: int | None = None) -> "subprocess.Popen[str]":
        clock = self.chance.choice(_CLOCKS)
        arguments = ("send", self.book.name, "--mode", "import", "--team", TEAM, "--as", self.way)
        return start_command(self.scene, self.book.parent, *arguments, clock=clock, room=room)

    def meet(self, faults: list[str], count: int) -> None:
        """Let each fault happen when some more accounts exist. Start the command again if it has ended."""
        process = self.start()
        for number, fault in enumerate(faults):
            if process.poll() is not None:
                self._end(process)
                process = self.start()
            self._wait(process, number * count // len(faults))
            if fault == _COMMAND_KILLED:
                self._end(process)
                process = self.start()
            elif fault == _DISK_FULL:
                self._end(process)
                size = self.journal.stat().st_size if self.journal.exists() else 0
                process = self.start(room=size + self.chance.randrange(300))
                self._wait(process, count)
            else:
                FAULTS[fault](self.scene, self.chance)
            self.met[fault] += 1
        self._end(process)

    def fill_disk(self, room: int) -> None:
        """Run the command on a disk that has no room for its whole journal."""
        process = self.start(room=room)
        output, _ = process.communicate(timeout=120)
        assert process.returncode == 2
        assert re.search(r"^Error: .*\.journal cannot be written: File too large\.$", output, re.MULTILINE)

    def finish(self) -> str:
        """Run the command until it has ended, and return what it says."""
        process = self.start()
        output, _ = process.communicate(timeout=1500 if _FAULTS else 280)
        assert process.returncode == 0, output
        return output

    def created(self) -> dict[str, str]:
        rows = self.scene.query(
            "SELECT external_account_number, service_account_number FROM account"
            " WHERE external_account_number LIKE %s",
            f"{self.beginning}%",
        )
        return dict(rows)

    def _wait(self, process: "subprocess.Popen[str]", accounts: int) -> None:
        """Wait for the next moment: so many accounts, some time, or the end of the command."""
        is_short = not _FAULTS or self.chance.random() < 0.3
        until = time.monotonic() + self.chance.uniform(0.2, 2.0 if is_short else 60.0)
        while process.poll() is None and time.monotonic() < until:
            with suppress(Exception):  # PostgreSQL was killed a moment ago
                if accounts and len(self.created()) >= accounts:
                    return
            time.sleep(0.05)

    def _end(self, process: "subprocess.Popen[str]") -> None:
        process.kill()
        output, _ = process.communicate()
        assert "Traceback" not in output, output
        assert process.returncode in (-9, 0, 2), output
        self.said.append(output)


@pytest.mark.timeout(7200 if _FAULTS else 300)
@pytest.mark.parametrize("way", ["single", "batch"])
def test_each_account_is_created_once_although_command_service_and_disk_fail(
    way: str, scene: Scene, tmp_path: Path
) -> None:
    chance = Random(way)
    books = (10 if way == "batch" else 2) if _FAULTS else 1
    count = 5_000 // books if _FAULTS else {"single": 40, "batch": 400}[way]
    faults = deal(_FAULTS // books, chance, _LONG) if _FAULTS else list(_SHORT)
    before = set(scene.query("SELECT id FROM batch"))
    met: Counter[str] = Counter()
    for number in range(books):
        beginning = f"MCS-{way}-{number}-"
        book = tmp_path / f"{number}.ndjson"
        accounts = numbered_accounts(count, beginning)
        book.write_bytes(ndjson(accounts))
        sending = Sending(scene, book, beginning, way, chance, met)
        # The journal begins with what is to be sent: without room for that, nothing is.
        sending.fill_disk(100)
        assert scene.query("SELECT count(*) FROM batch") == [(len(before) + number * (way == "batch"),)]
        if way == "single":
            sending.fill_disk(1000)
        sending.meet(faults, count)
        output = sending.finish()
        assert f"{count} lines: {count} IMPORTED" in output
        created = sending.created()
        assert created.keys() == {it["external_account_number"] for it in accounts}
        records = [json.loads(line) for line in sending.journal.read_text().splitlines()]
        assert sum("run" in it for it in records) == 1
        if way == "single":
            noted = [it for it in records if "line_number" in it]
            assert len(noted) == count
            assert {it["external_account_number"]: it["service_account_number"] for it in noted} == created
        # The next time it has nothing to send.
        assert "Nothing is sent again" in sending.finish()
    batches = set(scene.query("SELECT id FROM batch")) - before
    assert len(batches) == (books if way == "batch" else 0)
    if _FAULTS:
        sys.stdout.write(f"{way}: {dict(met)}\n")
