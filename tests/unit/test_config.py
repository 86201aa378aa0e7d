"""Settings are read in one place and documented. Errors have the name of the variable."""

import json
from pathlib import Path

import pytest
from settings_docs import FILE, render

from migration_service.config import CONNECTION_VARIABLES, Settings, SettingsError

NEEDED = {
    "DATABASE_URL": "postgresql://u:p@127.0.0.1/db",
    "REDIS_URL": "redis://127.0.0.1/0",
    "MIGRATION_SERVICE_SECRET_KEY": "x" * 32,
}


def test_the_page_of_settings_is_the_generated_one() -> None:
    assert FILE.read_text() == render(), "run `make docs`"


@pytest.mark.parametrize("missing", list(NEEDED))
def test_a_missing_setting_is_named(missing: str, tmp_path: Path) -> None:
    environ = {**NEEDED, "MIGRATION_SERVICE_HOME": str(tmp_path)}
    del environ[missing]
    with pytest.raises(SettingsError, match=missing):
        Settings.from_env(environ)


def test_a_value_of_the_wrong_kind_is_named(tmp_path: Path) -> None:
    environ = {**NEEDED, "MIGRATION_SERVICE_HOME": str(tmp_path), "MIGRATION_SERVICE_MAX_BODY_BYTES": "much"}
    with pytest.raises(
        SettingsError, match="MIGRATION_SERVICE_MAX_BODY_BYTES must be a whole number, not 'much'"
    ):
        Settings.from_env(environ)


def test_a_short_secret_key_is_refused(tmp_path: Path) -> None:
    environ = {
        **NEEDED,
        "MIGRATION_SERVICE_HOME": str(tmp_path),
        "MIGRATION_SERVICE_SECRET_KEY": "secret",
    }
    with pytest.raises(SettingsError, match="MIGRATION_SERVICE_SECRET_KEY"):
        Settings.from_env(environ)


def test_a_negative_number_of_proxies_is_refused(tmp_path: Path) -> None:
    environ = {**NEEDED, "MIGRATION_SERVICE_HOME": str(tmp_path), "MIGRATION_SERVICE_TRUSTED_PROXIES": "-1"}
    with pytest.raises(SettingsError, match="MIGRATION_SERVICE_TRUSTED_PROXIES"):
        Settings.from_env(environ)


def _save(home: Path, settings: dict[str, str]) -> None:
    (home / "settings.json").write_text(json.dumps(settings))


def test_settings_that_up_saved_are_used_and_others_come_from_the_environment(tmp_path: Path) -> None:
    _save(tmp_path, {**NEEDED, "MIGRATION_SERVICE_SMTP_URL": "smtp://saved"})
    settings = Settings.from_env(
        {"MIGRATION_SERVICE_HOME": str(tmp_path), "MIGRATION_SERVICE_LOG_LEVEL": "DEBUG"}
    )
    assert settings.database_url == NEEDED["DATABASE_URL"]
    assert (settings.smtp_url, settings.log_level) == ("smtp://saved", "DEBUG")


@pytest.mark.parametrize("given", CONNECTION_VARIABLES)
def test_nothing_is_read_from_the_file_if_the_environment_names_a_server_or_the_key(
    given: str, tmp_path: Path
) -> None:
    _save(tmp_path, NEEDED)
    with pytest.raises(SettingsError) as refused:
        Settings.from_env({"MIGRATION_SERVICE_HOME": str(tmp_path), given: NEEDED[given]})
    missing = next(variable for variable in CONNECTION_VARIABLES if variable != given)
    assert str(refused.value) == (
        f"{missing} is not set. {given} comes from the environment, so nothing is read from "
        f"{tmp_path}/settings.json. Set {', '.join(CONNECTION_VARIABLES)}, or none of them."
    )


def test_a_mail_server_of_another_service_is_not_used(tmp_path: Path) -> None:
    _save(tmp_path, {**NEEDED, "MIGRATION_SERVICE_SMTP_URL": "smtp://saved"})
    settings = Settings.from_env({**NEEDED, "MIGRATION_SERVICE_HOME": str(tmp_path)})
    assert settings.smtp_url == ""


def test_an_empty_variable_counts_as_not_set(tmp_path: Path) -> None:
    _save(tmp_path, NEEDED)
    settings = Settings.from_env({"MIGRATION_SERVICE_HOME": str(tmp_path), "DATABASE_URL": ""})
    assert settings.database_url == NEEDED["DATABASE_URL"]


def test_a_file_that_lacks_a_setting_is_named(tmp_path: Path) -> None:
    _save(tmp_path, {"DATABASE_URL": NEEDED["DATABASE_URL"]})
    with pytest.raises(SettingsError, match=f"REDIS_URL is neither set nor in {tmp_path}/settings.json"):
        Settings.from_env({"MIGRATION_SERVICE_HOME": str(tmp_path)})


def test_a_damaged_file_is_named_and_not_read_if_the_environment_has_the_settings(tmp_path: Path) -> None:
    (tmp_path / "settings.json").write_text("{")
    with pytest.raises(SettingsError, match=f"{tmp_path}/settings.json is damaged"):
        Settings.from_env({"MIGRATION_SERVICE_HOME": str(tmp_path)})
    Settings.from_env({**NEEDED, "MIGRATION_SERVICE_HOME": str(tmp_path)})
