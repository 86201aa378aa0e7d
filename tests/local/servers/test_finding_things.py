"""Small decisions of the embedded servers: names of programs, free ports."""

import socket

import pytest

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
