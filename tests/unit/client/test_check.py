"""`migration-client check` finds what `migration-service check` finds."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from migration_service.cli import main as service
from migration_service_client.command import main
from migration_service_local.samples import generate_accounts
from support.batch_client import ndjson


@pytest.fixture
def book(tmp_path: Path) -> Path:
    file = tmp_path / "book.ndjson.gz"
    file.write_bytes(ndjson(generate_accounts(60, supplier="S", broken_share=0.3), compress=True))
    return file


@pytest.mark.parametrize("options", [["--json"], ["--profile", "strict", "--supplier", "T"]])
def test_both_commands_print_and_write_the_same(book: Path, options: list[str]) -> None:
    outputs = []
    for name, command in (("service", service), ("client", main)):
        totals = book.with_name(name)
        arguments = ["check", str(book), "--processes", "1", "--totals", str(totals), *options]
        result = CliRunner().invoke(command, arguments)
        printed = json.loads(result.stdout) if "--json" in options else result.stdout
        outputs.append((result.exit_code, printed, json.loads(totals.read_text())))
    assert outputs[0] == outputs[1]
    assert outputs[0][0] == 1


def test_a_sound_book_from_a_pipe_exits_with_0() -> None:
    book = ndjson(generate_accounts(3, supplier="S"))
    result = CliRunner().invoke(main, ["check", "-", "--processes", "1"], input=book)
    assert (result.exit_code, result.output) == (0, "3 lines: 3 without errors, 0 with errors.\n")


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (None, "No such file or directory."),
        (b"", "The file has no lines."),
        (b"\x1f\x8bnothing", "The gzip data is corrupt"),
        (b"[1]", "This looks like a JSON array. Send one JSON object on each line (NDJSON)."),
    ],
)
def test_a_file_that_cannot_be_read_exits_with_2(tmp_path: Path, content: bytes | None, says: str) -> None:
    file = tmp_path / "book"
    if content is not None:
        file.write_bytes(content)
    result = CliRunner().invoke(main, ["check", str(file)])
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(f"Error: {file} cannot be read: {says}")


@pytest.mark.parametrize("kind", ["notes", "transactions", "statements"])
def test_data_to_add_is_not_checked_as_accounts(kind: str) -> None:
    line = {"import_supplier": "S", "external_account_number": "1", kind: [{}]}
    result = CliRunner().invoke(main, ["check", "-"], input=ndjson([line]))
    assert (result.exit_code, f"--kind {kind} --mode validate" in result.stderr) == (2, True)
