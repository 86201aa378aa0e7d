"""Commands print no control characters of suppliers' texts, and neither pad nor cut values in a pipe."""

import os
import subprocess
import sys
from datetime import UTC, datetime

import pytest

from migration_service.cli import output
from support.terminals import shown_by

HOSTILE = "a\x1b[2Jb\x9bc\u202ed\u200be\rf\tg"
SHOWN = r"a\x1b[2Jb\x9bc\u202ed\u200be\x0df\x09g"


def test_control_characters_are_shown_escaped(capsys: pytest.CaptureFixture[str]) -> None:
    output.show_record({"name": HOSTILE}, as_json=False)
    output.show_list([{"name": HOSTILE}], as_json=False, nothing="")
    output.show_tree(HOSTILE, {HOSTILE: HOSTILE, "below": [{"it": HOSTILE}]})
    output.show_done({}, False, HOSTILE)
    text = capsys.readouterr().out
    assert text.count(SHOWN) == 7
    assert not [character for character in text if ord(character) < 32 and character not in "\n\t"]
    assert not set(text) & {"\x9b", "\u202e", "\u200b"}


def test_a_pipe_gets_values_separated_by_tabs_neither_padded_nor_cut(
    capsys: pytest.CaptureFixture[str],
) -> None:
    rows: list[output.Record] = [
        {"a_b": "x" * 500, "c": None},
        {"a_b": ["1", "2"], "c": datetime(2026, 1, 2, tzinfo=UTC)},
    ]
    output.show_list(rows, as_json=False, nothing="")
    output.show_tree("title", {"long": "y" * 500})
    lines = capsys.readouterr().out.splitlines()
    assert lines[:3] == ["a b\tc", f"{'x' * 500}\t-", "1, 2\t2026-01-02 00:00:00 UTC"]
    assert lines[3:] == ["title", f"  long: {'y' * 500}"]


def test_a_terminal_gets_a_table_that_folds_long_values() -> None:
    script = (
        "from migration_service.cli.output import show_list\n"
        "show_list([{'name': 'x' * 500 + '\\x1b[31m'}], False, nothing='')"
    )
    environment = os.environ | {"COLUMNS": "80", "TERM": "xterm"}
    command = [sys.executable, "-c", script]
    text = shown_by(lambda it: subprocess.run(command, stdout=it, env=environment, check=True))
    assert text.count("x") - text.count("\\x1b") == 500
    assert r"\x1b[31m" in text.replace("\r\n", "").replace(" ", "")
    assert "\x1b[31m" not in text
