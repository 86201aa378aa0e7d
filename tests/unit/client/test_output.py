"""No terminal obeys what commands write, and a dash is no name of an output."""

import json
import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import click
import pytest
from click.testing import CliRunner

from migration_payloads.files.output import OutputPath, escape_lines
from migration_service.cli import main as service
from migration_service_client.command import main as client

_CLEAR = "\x1b[2J\x9b31m\u202e"


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
    address = {"MIGRATION_CLIENT_URL": url, "MIGRATION_CLIENT_KEY": "k" * 40}
    told, statuses = "", list[int]()
    try:
        for command in (["status"], ["results", "1"], ["failed", "1"], ["reconcile", "S"], ["doctor"]):
            written = CliRunner().invoke(client, command, env=address).output
            told += written
            assert not {"\x1b", "\x9b", "\u202e"} & set(written)
        statuses += [500, 429]
        listen = ["listen", "--since", "start", "--patience", "0"]
        done = CliRunner().invoke(client, listen, env=address)
        assert (done.exit_code, done.stderr.count("It is asked again."), statuses) == (2, 2, [])
    finally:
        server.shutdown()
        server.server_close()
    assert told.count("\\x1b[2J") >= 4
    refusal = re.search(r"refuses this: (.*) \(x\S*\) one \(x\S* at one\) two \(x\S* at two\)$", told, re.M)
    assert refusal, told


def test_control_characters_are_escaped_and_lines_are_kept() -> None:
    assert escape_lines("a\tb\n\x1b[2J\r\x9b\u202e\x7f") == "a\tb\n\\x1b[2J\\x0d\\x9b\\u202e\\x7f"
