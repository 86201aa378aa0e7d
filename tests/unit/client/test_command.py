"""`migration-client` without a server: its help, its errors, its output, and its profiles."""

import json
import re
import subprocess
import sys
from configparser import ConfigParser
from datetime import UTC, datetime
from importlib.metadata import requires
from typing import Any, get_type_hints

import click
import pytest
from click.testing import CliRunner, Result

from documentation.pages import ROOT
from migration_service_client.command import main, output, watch
from migration_service_client.models import BatchProgressAnswer


def run(*arguments: str, **environment: str) -> Result:
    return CliRunner().invoke(main, arguments, env=environment)


def test_the_help_of_each_command_begins_with_its_line_in_the_list() -> None:
    context = click.Context(main)
    listed = run("--help").output
    for name in main.list_commands(context):
        command = main.get_command(context, name)
        assert command is not None
        assert command.name == name
        [line, *_] = (command.help or "").splitlines()
        assert f" {name} " in listed
        assert line in " ".join(listed.split())
    assert run("no-such-command").exit_code == 2


def test_the_help_imports_no_command_and_no_http_library() -> None:
    script = (
        "import sys\n"
        "from migration_service_client.command import main\n"
        "main(['--help'], standalone_mode=False)\n"
        "print(*sys.modules, file=sys.stderr)"
    )
    path = {"PYTHONPATH": str(ROOT / "clients/python/src")}
    done = subprocess.run(
        [sys.executable, "-c", script], env=path, capture_output=True, text=True, check=True
    )
    assert "migration_service_client.command" in done.stderr.split()
    assert not {"migration_service_client.client", "pycurl", "ssl"} & set(done.stderr.split())


def test_no_option_takes_a_key() -> None:
    context = click.Context(main)
    for name in main.list_commands(context):
        command = main.get_command(context, name)
        assert command is not None
        names = {option for it in command.params for option in it.opts}
        assert "--key" not in names


def test_output_escapes_what_a_terminal_would_obey(capsys: pytest.CaptureFixture[str]) -> None:
    rows: list[dict[str, Any]] = [{"a_b": "x\x1b[2Jü", "at": datetime(2026, 3, 1, tzinfo=UTC), "n": None}]
    output.show_list(rows, as_json=False, nothing="none")
    output.show_list(rows, as_json=True, nothing="none")
    output.show_list([], as_json=False, nothing="none")
    head, row, line, nothing = capsys.readouterr().out.splitlines()
    assert (head, row) == ("a b\tat\tn", "x\\x1b[2Jü\t2026-03-01 00:00:00 UTC\t-")
    assert json.loads(line) == {"a_b": "x\x1b[2Jü", "at": "2026-03-01T00:00:00Z", "n": None}
    assert "\x1b" not in line
    assert nothing == "none"


def test_the_client_without_extras_needs_fewer_than_ten_packages() -> None:
    settings = ConfigParser()
    settings.read(ROOT / "clients/python/setup.cfg")
    wanted = settings["options"]["install_requires"].split()
    needed: set[str] = set()
    while wanted:
        name = re.split(r"[^\w.-]", wanted.pop())[0]
        if name not in needed:
            needed.add(name)
            wanted += [it for it in requires(name) or [] if ";" not in it]
    assert {"click", "pycurl"} <= needed
    assert len(needed) + 1 < 10


def test_lines_that_wait_for_another_batch_are_not_done() -> None:
    members: dict[str, Any] = dict.fromkeys(get_type_hints(BatchProgressAnswer))
    members |= {"lines": 3, "counts": {"ADDED": 1, "DEFERRED": 2}}
    assert watch.count_done(BatchProgressAnswer(**members)) == 1
