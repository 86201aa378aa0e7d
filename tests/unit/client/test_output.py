"""What commands write is whole, or they end with exit status 2, and no terminal obeys it."""

import json
import os
import re
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from documentation.pages import ROOT
from migration_payloads.files.output import OutputPath, escape_lines
from migration_service.cli import main as service
from migration_service_client.command import main as client
from unit.client.test_fix import account

CLIENT, SERVICE = "migration_service_client.command", "migration_service.cli"
_ENV = {"PYTHONPATH": os.pathsep.join(map(str, (ROOT / "clients/python/src", ROOT / "src")))}
_CLEAR = "\x1b[2J\x9b31m\u202e"


def run(
    module: str, *arguments: str, stdout: int = subprocess.PIPE, **env: str
) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-c", f"from {module} import main; main()", *arguments],
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=subprocess.PIPE,
        env=_ENV | env,
        check=False,
    )


@pytest.fixture
def book(tmp_path: Path) -> str:
    file = tmp_path / "book.ndjson"
    file.write_bytes(
        account("\u0141-32", customers__0__given_name="\u0141", customers__0__family_name="\u017bak\u200b")
    )
    return str(file)


@pytest.mark.parametrize(
    ("command", "shows"),
    [(["check"], rb"\u0141-32"), (["fix", "--show-values"], rb"\u017bak")],
)
def test_what_the_encoding_of_the_output_lacks_is_escaped(
    book: str, command: list[str], shows: bytes
) -> None:
    done = run(CLIENT, *command, book, PYTHONIOENCODING="cp1252")
    assert (done.returncode, done.stderr) == (0, b"")
    assert shows in done.stdout


@pytest.mark.parametrize("arguments", [["check"], ["check", "--json"], ["fix"]])
def test_a_failed_write_is_exit_status_2_and_a_sentence(book: str, arguments: list[str]) -> None:
    full = os.open("/dev/full", os.O_WRONLY)
    done = run(CLIENT, *arguments, book, stdout=full)
    os.close(full)
    assert (done.returncode, done.stderr) == (2, b"Error: No space left on device.\n")


def _commands(group: click.Command) -> Iterator[click.Command]:
    if isinstance(group, click.Group):
        context = click.Context(group)
        for name in group.list_commands(context):
            command = group.get_command(context, name)
            assert command is not None
            yield from _commands(command)
    else:
        yield group


def test_a_dash_is_no_name_of_an_output() -> None:
    found = [
        (command.name, option, option.type)
        for command in (*_commands(client), *_commands(service))
        for option in command.params
        if isinstance(option.type, OutputPath)
    ]
    assert {name for name, _, _ in found} >= {
        "fix",
        "redact",
        "convert",
        "delta",
        "profile",
        "report",
        "check",
    }
    for _, option, kind in found:
        with pytest.raises(click.BadParameter, match="- is no name of an output"):
            kind.convert("-", option, None)
    # Every other path that may not exist is read, or is known to be.
    others = {
        option.name
        for command in (*_commands(client), *_commands(service))
        for option in command.params
        if type(option.type) is click.Path and not option.type.exists
    }
    assert others <= {"file", "old", "new", "sql", "key_file", "ca_file", "secret_file", "home"}


def test_a_terminal_obeys_nothing_that_a_server_says() -> None:
    class Hostile(BaseHTTPRequestHandler):
        def handle_one_request(self) -> None:
            self.raw_requestline = self.rfile.readline()
            if not self.raw_requestline or not self.parse_request():
                self.close_connection = True
                return
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            code = f"x{_CLEAR}"
            found = [{"code": code, "detail": it, "attr": it} for it in (_CLEAR, "one", "two")]
            body = json.dumps({"code": code, "detail": _CLEAR, "errors": found}).encode()
            self.send_response(statuses.pop() if statuses else 403)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_arguments: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Hostile)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}"
    told, statuses = "", list[int]()
    try:
        for command in (["status"], ["results", "1"], ["failed", "1"], ["reconcile", "S"], ["doctor"]):
            done = run(CLIENT, *command, MIGRATION_CLIENT_URL=url, MIGRATION_CLIENT_KEY="k" * 40)
            written = (done.stdout + done.stderr).decode()
            told += written
            assert not {"\x1b", "\x9b", "\u202e"} & set(written)
        statuses += [500, 429]
        listen = ("listen", "--since", "start", "--patience", "0")
        done = run(CLIENT, *listen, MIGRATION_CLIENT_URL=url, MIGRATION_CLIENT_KEY="k" * 40)
        assert (done.returncode, done.stderr.count(b"It is asked again."), statuses) == (2, 2, [])
    finally:
        server.shutdown()
        server.server_close()
    assert told.count("\\x1b[2J") >= 4
    refusal = re.search(r"refuses this: (.*) \(x\S*\) one \(x\S* at one\) two \(x\S* at two\)$", told, re.M)
    assert refusal, told


def test_control_characters_are_escaped_and_lines_are_kept() -> None:
    assert escape_lines("a\tb\n\x1b[2J\r\x9b\u202e\x7f") == "a\tb\n\\x1b[2J\\x0d\\x9b\\u202e\\x7f"


_WRITING = {
    "fix": ["fix", "book.ndjson", "--accept", "certain", "-o"],
    "redact": ["redact", "book.ndjson", "-o"],
    "profile": ["profile", "book.ndjson", "--save"],
    "check": ["check", "book.ndjson", "--totals"],
    "convert": ["convert", "book.sql", "-o"],
    "errors": ["convert", "book.sql", "-o", "/dev/null", "--errors"],
    "samples": ["samples", "1", "--supplier", "S", "--today", "2026-03-01", "--output"],
}


@pytest.mark.parametrize("command", _WRITING)
def test_whatever_is_at_the_name_of_an_output_stays_what_it_is(
    book: str, command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("accounts.csv").write_text("number\n1\n")
    Path("book.sql").write_text(
        "-- source accounts: accounts.csv\n"
        "select number as external_account_number, 'S' as import_supplier, _row from accounts"
    )
    if command == "profile":  # which asks the database for each path
        Path("book.ndjson").write_text('{"external_account_number": "1"}')
    group = service if command == "samples" else client

    def write(out: str) -> Result:
        return CliRunner().invoke(group, [*_WRITING[command], out])

    assert write("new").exit_code == 0
    content = Path("new").read_bytes()
    old = Path("old")
    old.write_bytes(b"x" * 100_000)
    old.chmod(0o640)
    Path("link").symlink_to("old")
    Path("dangling").symlink_to("made")
    os.mkfifo("pipe")
    reader = subprocess.Popen(["cat", "pipe"], stdout=subprocess.PIPE)
    Path("full").symlink_to("/dev/full")
    assert [write(it).exit_code for it in ("link", "dangling", "pipe")] == [0, 0, 0]
    told, full = reader.communicate()[0], write("full")
    if command == "redact":  # whose replacements differ from run to run
        told, content = bytes(len(told)), bytes(len(content))
        assert len(old.read_bytes()) == len(Path("made").read_bytes()) == len(content)
    else:
        assert old.read_bytes() == Path("made").read_bytes() == content
    assert told == content
    assert content
    assert (Path("link").is_symlink(), Path("dangling").is_symlink(), Path("pipe").is_fifo()) == (True,) * 3
    assert stat.S_IMODE(old.stat().st_mode) == 0o640
    assert Path("/dev/full").is_char_device()
    assert full.exit_code == 2
    assert full.stderr.endswith("full: No space left on device.\n")
    recipes = {"new.recipe.json", "link.recipe.json", "dangling.recipe.json"} if command == "fix" else set()
    if command == "convert":
        recipes = {"new.rows.csv", "link.rows.csv", "dangling.rows.csv"}
    rest = {"book.ndjson", "accounts.csv", "book.sql"}
    names = {"new", "old", "link", "dangling", "made", "pipe", "full"}
    assert {it.name for it in tmp_path.iterdir()} == recipes | rest | names


def test_a_pipe_that_is_no_longer_read_and_standard_output_are_written_in_place(
    book: str, tmp_path: Path
) -> None:
    pipe, shown = tmp_path / "pipe", tmp_path / "shown"
    os.mkfifo(pipe)
    reader = subprocess.Popen(["head", "-c", "1", str(pipe)], stdout=subprocess.DEVNULL)
    Path(book).write_bytes((Path(book).read_bytes() + b"\n") * 200)
    done = run(CLIENT, "fix", book, "--accept", "invalid_date", "-o", str(pipe))
    reader.wait()
    assert (done.returncode, done.stderr) == (2, f"Error: {pipe}: Broken pipe.\n".encode())
    with shown.open("wb") as file:
        done = run(
            CLIENT,
            "fix",
            book,
            "--accept",
            "invalid_date",
            "-o",
            "/dev/stdout",
            "--json",
            stdout=file.fileno(),
        )
    assert (done.returncode, done.stderr) == (
        0,
        b"/dev/stdout is written in place, so the recipe is not kept.\n",
    )
    lines = shown.read_bytes().splitlines(keepends=True)
    assert b"".join(lines[:200]) == Path(book).read_bytes()
    assert json.loads(b"".join(lines[200:]))["lines"] == 200
