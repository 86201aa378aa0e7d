"""`migration-client` without a server: its help, its errors, its output, and its profiles."""

import json
import re
import subprocess
import sys
from configparser import ConfigParser
from datetime import UTC, datetime
from importlib.metadata import requires
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from documentation.pages import ROOT
from migration_service_client.command import main, output


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


@pytest.mark.parametrize("arguments", [("go-live", "start"), ("accounts", "skip"), ("undo", "start")])
def test_a_line_without_an_account_ends_a_command_that_takes_accounts_of_a_file(
    arguments: tuple[str, ...], tmp_path: Path
) -> None:
    """Without any account, a go-live would be that of the whole supplier."""
    file = tmp_path / "vanished.ndjson"
    file.write_text('{"external_account_number": "1"}\n\n{"account": "2"}\n')
    decided = ("--yes", "--reason", "?") if arguments[0] == "undo" else ("--reason", "?")
    more = ("--yes",) if arguments[0] == "go-live" else decided
    place = ("--accounts-of", str(file), "--url", "http://127.0.0.1:1")
    done = run(*arguments, "NORTHSTAR", *more, *place, MIGRATION_CLIENT_KEY="k")
    assert (done.exit_code, done.output) == (
        2,
        f"Error: {file}: line 3 has no valid external_account_number.\n",
    )


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


@pytest.mark.parametrize(
    ("arguments", "environment", "says"),
    [
        ([], {}, "No address of the service is given. Use --url or --profile"),
        (["--url", "example.com"], {"KEY": "k"}, "'example.com' is not an address that begins with https://"),
        (["--url", "http://127.0.0.1:1"], {}, "No API key is in the variable MIGRATION_CLIENT_KEY."),
        (["--url", "http://127.0.0.1:1", "--key-file", "none"], {}, "none: No such file or directory."),
        (["--url", "http://127.0.0.1:1"], {"KEY_FILE": "empty"}, "No API key is in empty."),
        (["--url", "http://127.0.0.1:1", "--key-file", "bytes"], {}, "bytes has no API key, which has ASCII"),
    ],
)
def test_what_keeps_a_command_from_running_is_one_sentence(
    arguments: list[str],
    environment: dict[str, str],
    says: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("empty").write_text("\n")
    Path("bytes").write_bytes(b"\xff\xfe\x00")
    given = {f"MIGRATION_CLIENT_{name}": value for name, value in environment.items()}
    result = run("status", *arguments, **given)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(f"Error: {says}")


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


_KEY = "ami_0123456789_" + "k" * 40


def _run(folder: Path, *arguments: str, given: str = "", **environment: str) -> Result:
    return CliRunner().invoke(
        main, arguments, input=given, env={"XDG_CONFIG_HOME": str(folder), **environment}
    )


def test_profiles_are_kept_where_only_their_owner_reads_them(tmp_path: Path) -> None:
    for name, url in (("default", "http://127.0.0.1:1"), ("test", "http://127.0.0.1:2")):
        kept = _run(tmp_path, "configure", name, "--url", url, given=f"{_KEY}\n")
        assert kept.exit_code == 0, kept.output
        assert _KEY not in kept.output
    file = tmp_path / "migration-client" / "profiles.json"
    assert file.stat().st_mode & 0o777 == 0o600
    listed = _run(tmp_path, "configure").stdout
    assert "test\thttp://127.0.0.1:2" in listed
    assert _KEY not in listed
    show = ("api-keys", "show", "--patience", "0")
    for arguments, environment, port in (
        (show, {}, 1),
        (("--profile", "test", *show), {"MIGRATION_CLIENT_URL": "http://127.0.0.1:3"}, 2),
        (show, {"MIGRATION_CLIENT_PROFILE": "test"}, 2),
        (show, {"MIGRATION_CLIENT_URL": "http://127.0.0.1:3", "MIGRATION_CLIENT_KEY": "k"}, 3),
    ):
        tried = _run(tmp_path, *arguments, **environment)
        assert (tried.exit_code, f"127.0.0.1:{port} " in tried.stderr) == (2, True), tried.stderr
    file.chmod(0o640)
    assert "Others can read the keys in " in _run(tmp_path, *show).stderr
    file.chmod(0o600)
    assert _run(tmp_path, "configure", "test", "--remove").exit_code == 0
    assert (
        "There is no profile 'test'. There are: default." in _run(tmp_path, "--profile", "test", *show).stderr
    )
    file.write_text("[1]")
    assert "is not a file of profiles" in _run(tmp_path, *show).stderr


def test_a_key_is_not_sent_to_another_address_than_its_own(tmp_path: Path) -> None:
    _run(tmp_path, "configure", "default", "--url", "http://127.0.0.1:1", given=_KEY)
    for arguments, says in (
        (("--profile", "default", "suppliers", "list", "--url", "http://x"), "Leave out --url."),
        (("suppliers", "list", "--url", "http://127.0.0.1:1"), "No API key is in the variable"),
        (("configure", "x", "--url", "ftp://x"), "begins with https://"),
        (("configure", "x", "--url", "http://x"), "Expected an API key"),
        (("configure", "x"), "Expected --url or --remove"),
    ):
        result = _run(tmp_path, *arguments)
        assert (result.exit_code, says in result.stderr) == (2, True), result.output
