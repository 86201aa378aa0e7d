"""Small decisions of the embedded servers: names of programs, free ports, the lines to paste."""

import json
import shlex
import socket

import pytest

from migration_service_local.demo.report import curl_lines
from migration_service_local.errors import StartError
from migration_service_local.servers.orphans import program_name
from migration_service_local.servers.ports import is_free, next_free_port, random_free_port


@pytest.mark.parametrize(
    ("command_line", "name"),
    [
        (["/opt/a folder/bin/postgres", "-D", "/data"], "postgres"),
        (["postgres: checkpointer "], "postgres"),
        (["postgres: migration_service migration_service 127.0.0.1(4711) idle"], "postgres"),
        (["/opt/valkey-server", "/data/valkey.conf"], "valkey-server"),
        (["/opt/valkey-server 127.0.0.1:6379"], "valkey-server"),
        (["/usr/bin/python3", "-m", "celery", "-A", "celery_worker"], "celery"),
        (["vim", "/data/postgresql.conf"], "vim"),
        (["python3", "-m"], ""),
        ([], ""),
    ],
)
def test_the_program_is_read_from_its_command_line(command_line: list[str], name: str) -> None:
    assert program_name(command_line) == name


def test_a_port_is_free_until_something_listens_on_it() -> None:
    port = random_free_port()
    assert is_free(port)
    with socket.create_server(("127.0.0.1", port)):
        assert not is_free(port)
        assert next_free_port(port) > port
        with pytest.raises(StartError, match=f"Port {port} and those after it are taken"):
            next_free_port(port, last=port)
    assert next_free_port(port) == port


def test_the_lines_to_paste_are_what_a_shell_makes_a_request_of() -> None:
    log_in, status = curl_lines("http://127.0.0.1:8000", "ab_c-d", "SAMPLE", "10/0 3")
    words = shlex.split(log_in.removeprefix("TOKEN=$(").partition(" |")[0])
    query = json.loads(words[words.index("-d") + 1])["query"]
    assert query == 'mutation { obtainServiceToken(input: {APIKey: "ab_c-d"}) { token } }'
    assert shlex.split(status)[-1] == (
        "http://127.0.0.1:8000/v1/data-import/account-transfer-status/SAMPLE/10%2F0%203/"
    )
