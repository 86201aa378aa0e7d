"""Small decisions of the embedded servers: names of programs, free ports."""

import secrets
import socket
import sys
from contextlib import closing
from secrets import randbelow

import pytest

from migration_service_local.errors import StartError
from migration_service_local.servers.orphans import program_name
from migration_service_local.servers.ports import Ports, is_free, random_free_port


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
    with socket.create_server(("127.0.0.1", port)), closing(Ports()) as ports:
        assert not is_free(port)
        assert not ports.take(port)
        assert ports.take_next(port) > port
        with pytest.raises(StartError, match=f"Port {port} and those after it are taken"):
            ports.take_next(port, last=port)
    with closing(Ports()) as ports:
        assert ports.take_next(port) == port


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has names of sockets that belong to no file")
def test_a_port_that_another_service_has_chosen_is_left_to_it_before_anything_listens() -> None:
    port = random_free_port()
    with closing(Ports()) as one, closing(Ports()) as other:
        assert one.take(port)
        assert not other.take(port)
        assert other.take_next(port) > port
        one.close()
        assert other.take(port)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has names of sockets that belong to no file")
def test_a_random_port_is_chosen_once(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = [first := random_free_port()]

    def draw(number: int) -> int:
        return drawn.pop() - 20_000 if drawn else randbelow(number)

    monkeypatch.setattr(secrets, "randbelow", draw)
    assert random_free_port() != first
    assert not drawn
