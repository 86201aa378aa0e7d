"""Settings: read in one place, documented in full, refused with the name of the variable."""

import json
from pathlib import Path

import pytest
from settings_docs import FILE, render

from migration_service.config import Settings, SettingsError

NEEDED = {
    "DATABASE_URL": "postgresql://u:p@127.0.0.1/db",
    "REDIS_URL": "redis://127.0.0.1/0",
    "MIGRATION_SERVICE_SECRET_KEY": "x" * 32,
}


def test_the_page_of_settings_is_what_the_code_says() -> None:
    assert FILE.read_text() == render(), "run `make docs`"


@pytest.mark.parametrize("missing", list(NEEDED))
def test_a_missing_setting_is_named(missing: str, tmp_path: Path) -> None:
    environ = {**NEEDED, "MIGRATION_SERVICE_HOME": str(tmp_path)}
    del environ[missing]
    with pytest.raises(SettingsError, match=missing):
        Settings.from_env(environ)


def test_a_value_of_the_wrong_kind_is_named(tmp_path: Path) -> None:
    environ = {**NEEDED, "MIGRATION_SERVICE_HOME": str(tmp_path), "MIGRATION_SERVICE_MAX_BODY_BYTES": "much"}
    with pytest.raises(SettingsError, match="MIGRATION_SERVICE_MAX_BODY_BYTES"):
        Settings.from_env(environ)


def test_a_short_secret_key_is_refused(tmp_path: Path) -> None:
    environ = {
        **NEEDED,
        "MIGRATION_SERVICE_HOME": str(tmp_path),
        "MIGRATION_SERVICE_SECRET_KEY": "secret",
    }
    with pytest.raises(SettingsError, match="MIGRATION_SERVICE_SECRET_KEY"):
        Settings.from_env(environ)


def test_fewer_proxies_than_none_are_refused(tmp_path: Path) -> None:
    environ = {**NEEDED, "MIGRATION_SERVICE_HOME": str(tmp_path), "MIGRATION_SERVICE_TRUSTED_PROXIES": "-1"}
    with pytest.raises(SettingsError, match="MIGRATION_SERVICE_TRUSTED_PROXIES"):
        Settings.from_env(environ)


def test_what_up_saved_is_used_and_the_environment_comes_first(tmp_path: Path) -> None:
    (tmp_path / "settings.json").write_text(json.dumps(NEEDED))
    settings = Settings.from_env(
        {"MIGRATION_SERVICE_HOME": str(tmp_path), "REDIS_URL": "redis://elsewhere/1"}
    )
    assert settings.database_url == NEEDED["DATABASE_URL"]
    assert settings.redis_url == "redis://elsewhere/1"
