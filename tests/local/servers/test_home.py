"""The folder of the service, its ports, and its programs."""

import secrets
import shutil
import socket
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from secrets import randbelow

import pytest

from migration_service.config import load_saved_settings
from migration_service_local.errors import StartError
from migration_service_local.servers.home import Home
from migration_service_local.servers.orphans import program_name
from migration_service_local.servers.ports import is_free, random_free_port, take_next_port, take_port
from support.servers import temporary_folder


@pytest.fixture
def home() -> Iterator[Home]:
    folder = temporary_folder()
    opened = Home(folder / "home")
    yield opened
    opened.close()
    shutil.rmtree(folder)


def test_a_secret_is_made_once_and_is_long_enough_for_a_signing_key(home: Home) -> None:
    first = home.secret("secret_key")
    assert len(first) >= 32
    assert home.secret("secret_key") == first
    assert home.secret("another") != first


def test_files_are_readable_by_us_alone_and_replaced_in_one_step(home: Home) -> None:
    home.write("settings.json", {"DATABASE_URL": "one"})
    (home.path / "settings.json").chmod(0o644)
    home.write("settings.json", {"DATABASE_URL": "two"})
    assert load_saved_settings(home.path) == {"DATABASE_URL": "two"}
    assert stat.S_IMODE((home.path / "settings.json").stat().st_mode) == 0o600
    assert not list(home.path.glob("*.new"))


def test_the_home_is_found_again_by_another_name(home: Home, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(home.path)
    home.close()
    again = Home(tmp_path / "link")
    assert again.path == home.path
    again.close()


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
        assert not take_port(port)
        assert take_next_port(port) > port
        with pytest.raises(StartError, match=f"Port {port} and those after it are taken"):
            take_next_port(port, last=port)
    assert take_next_port(port, last=port) == port


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has names of sockets that belong to no file")
def test_a_port_that_another_service_has_chosen_is_left_to_it_before_anything_listens() -> None:
    port = random_free_port()
    assert take_port(port)
    assert not take_port(port)
    assert take_next_port(port) > port


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has names of sockets that belong to no file")
def test_a_random_port_is_chosen_once(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = [first := random_free_port()]

    def draw(number: int) -> int:
        return drawn.pop() - 20_000 if drawn else randbelow(number)

    monkeypatch.setattr(secrets, "randbelow", draw)
    assert random_free_port() != first
    assert not drawn
