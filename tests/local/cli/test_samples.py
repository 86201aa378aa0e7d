"""`migration-service samples` on a terminal. The rest is in `tests/transcripts/client/samples.md`."""

import subprocess
import sys
from pathlib import Path

from support.terminals import shown_by


def test_a_terminal_shows_a_progress_bar(tmp_path: Path) -> None:
    program = [sys.executable, "-c", "from migration_service.cli import main; main()"]
    command = [*program, "samples", "600", "--supplier", "NORTHSTAR", "--today", "2026-03-15"]
    output = tmp_path / "book.ndjson"
    with output.open("wb") as file:
        shown = shown_by(lambda terminal: subprocess.run(command, stdout=file, stderr=terminal, check=True))
    assert "Accounts" in shown
    assert "600/600" in shown
    assert output.read_bytes().count(b"\n") == 600
