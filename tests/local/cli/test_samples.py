"""`migration-service samples`, in this process and as a program."""

import gzip
import subprocess
import sys
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from migration_service.cli import main
from migration_service_local.samples import generate_lines
from support.terminals import shown_by

PROGRAM = [sys.executable, "-c", "from migration_service.cli import main; main()", "samples"]
BOOK = ["--supplier", "NORTHSTAR", "--today", "2026-03-15"]


def _expected(count: int, **options: Any) -> bytes:
    return b"".join(generate_lines(count, supplier="NORTHSTAR", today=date(2026, 3, 15), **options))


def test_it_writes_the_book_to_standard_output_and_nothing_else() -> None:
    done = subprocess.run([*PROGRAM, "25", *BOOK], capture_output=True, check=True)
    assert done.stdout == _expected(25)
    assert done.stderr == b""


def test_options_reach_the_book() -> None:
    result = CliRunner().invoke(main, ["samples", "40", *BOOK, "--seed", "9", "--broken-share", "0.5"])
    assert result.stdout_bytes == _expected(40, seed=9, broken_share=0.5)


def test_an_output_file_with_the_suffix_gz_is_compressed(tmp_path: Path) -> None:
    path = tmp_path / "book.ndjson.gz"
    result = CliRunner().invoke(main, ["samples", "30", *BOOK, "--output", str(path)])
    assert result.exit_code == 0
    assert gzip.decompress(path.read_bytes()) == _expected(30)


def test_it_is_no_error_if_the_reader_ends_early() -> None:
    writer = subprocess.Popen(
        [*PROGRAM, "5000", *BOOK, "--workers", "2"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert writer.stdout is not None
    assert writer.stderr is not None
    with writer:
        assert writer.stdout.readline() == _expected(1)
        writer.stdout.close()
        assert writer.stderr.read() == b""
    assert writer.returncode == 0


def test_a_terminal_shows_a_progress_bar(tmp_path: Path) -> None:
    output = tmp_path / "book.ndjson"
    with output.open("wb") as file:
        command = [*PROGRAM, "600", *BOOK]
        shown = shown_by(lambda terminal: subprocess.run(command, stdout=file, stderr=terminal, check=True))
    assert "Accounts" in shown
    assert "600/600" in shown
    assert output.read_bytes().count(b"\n") == 600


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["-1", *BOOK], "No such option"),
        (["5"], "Missing option '--supplier'"),
        (["5", *BOOK, "--broken-share", "2"], "2.0 is not in the range"),
        (["5", "--supplier", "NORTHSTAR", "--today", "1990-01-01"], "choose a day from 2000 to 2199"),
        (["5", *BOOK, "--output", "/no/such/folder/book.ndjson"], "No such file or directory."),
    ],
)
def test_an_invalid_request_is_answered_with_one_sentence(arguments: list[str], says: str) -> None:
    result = CliRunner().invoke(main, ["samples", *arguments])
    assert result.exit_code != 0
    assert says in result.output
