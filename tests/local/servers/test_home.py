"""The files of the home folder: permanent secrets and ports, which are private and replaced atomically."""

import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from migration_service.config import load_saved_settings
from migration_service_local.servers.home import Home
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
