"""Settings are read in one place and documented. Errors have the name of the variable."""

import json
from dataclasses import MISSING, fields
from pathlib import Path

import pytest
from settings_docs import FILE, render

from migration_service.config import CONNECTION_VARIABLES, Settings, SettingsError, variable_of

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


@pytest.mark.parametrize(
    ("variable", "text", "expected"),
    [
        ("MIGRATION_SERVICE_MAX_BODY_BYTES", "much", "a whole number of 1 or more"),
        ("MIGRATION_SERVICE_MAX_BODY_BYTES", "1.5", "a whole number of 1 or more"),
        ("MIGRATION_SERVICE_MAX_BODY_BYTES", "0", "a whole number of 1 or more"),
        ("MIGRATION_SERVICE_TRUSTED_PROXIES", "-1", "a whole number of 0 or more"),
        ("MIGRATION_SERVICE_PROCESS_WAIT_SECONDS", "soon", "a number of 0 or more"),
        ("MIGRATION_SERVICE_PROCESS_WAIT_SECONDS", "nan", "a number of 0 or more"),
        ("MIGRATION_SERVICE_PROCESS_WAIT_SECONDS", "inf", "a number of 0 or more"),
        ("MIGRATION_SERVICE_AUDIT_RETENTION_DAYS", "89", "a whole number of 90 or more"),
        ("MIGRATION_SERVICE_BATCH_RETENTION_DAYS", "29", "a whole number of 30 or more"),
        ("MIGRATION_SERVICE_CONSOLE", "perhaps", "on or off"),
        ("MIGRATION_SERVICE_LOG_LEVEL", "LOUD", "DEBUG, INFO, WARNING or ERROR"),
        ("MIGRATION_SERVICE_LOG_FORMAT", "xml", "json, text or auto"),
        ("MIGRATION_SERVICE_CONSOLE_TIME_ZONE", "Amsterdam", "a time zone such as Europe/Amsterdam"),
        ("MIGRATION_SERVICE_CONSOLE_TIME_ZONE", "../../etc/passwd", "a time zone such as Europe/Amsterdam"),
    ],
)
def test_a_value_that_is_not_allowed_is_named(
    variable: str, text: str, expected: str, tmp_path: Path
) -> None:
    environ = {**NEEDED, "MIGRATION_SERVICE_HOME": str(tmp_path), variable: text}
    with pytest.raises(SettingsError) as refused:
        Settings.from_env(environ)
    assert str(refused.value) == f"{variable} must be {expected}, not {text!r}."


def test_a_secret_that_is_not_allowed_is_not_shown(tmp_path: Path) -> None:
    name = "MIGRATION_SERVICE_WEBHOOK_SECRET_KEYS"
    with pytest.raises(SettingsError) as refused:
        Settings.from_env({**NEEDED, "MIGRATION_SERVICE_HOME": str(tmp_path), name: "hunter2"})
    assert str(refused.value).startswith(f"{name} must be ")
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize(
    ("variable", "text", "name", "value"),
    [
        ("MIGRATION_SERVICE_TRUSTED_PROXIES", "0", "trusted_proxies", 0),
        ("MIGRATION_SERVICE_AUDIT_RETENTION_DAYS", "90", "audit_retention_days", 90),
        ("MIGRATION_SERVICE_LEAVE_SECONDS", "60", "leave_seconds", 60.0),
        ("MIGRATION_SERVICE_CONSOLE", "ON", "console", True),
        ("MIGRATION_SERVICE_LOG_LEVEL", "debug", "log_level", "DEBUG"),
        ("MIGRATION_SERVICE_CONSOLE_TIME_ZONE", "UTC", "console_time_zone", "UTC"),
    ],
)
def test_a_value_at_the_edge_of_what_is_allowed_is_used(
    variable: str, text: str, name: str, value: object, tmp_path: Path
) -> None:
    environ = {**NEEDED, "MIGRATION_SERVICE_HOME": str(tmp_path), variable: text}
    assert getattr(Settings.from_env(environ), name) == value


def test_the_default_of_a_setting_is_a_value_that_its_variable_may_have(tmp_path: Path) -> None:
    defaults = {
        variable_of(it): str(it.default)
        for it in fields(Settings)
        if it.default not in (MISSING, "") and not isinstance(it.default, bool)
    }
    environ = {**NEEDED, **defaults, "MIGRATION_SERVICE_HOME": str(tmp_path)}
    assert Settings.from_env(environ) == Settings.from_env(
        {**NEEDED, "MIGRATION_SERVICE_HOME": str(tmp_path)}
    )


def test_a_short_secret_key_is_refused(tmp_path: Path) -> None:
    environ = {**NEEDED, "MIGRATION_SERVICE_HOME": str(tmp_path), "MIGRATION_SERVICE_SECRET_KEY": "secret"}
    with pytest.raises(SettingsError, match="MIGRATION_SERVICE_SECRET_KEY"):
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


SECRETS = {
    "DATABASE_URL": "database_url",
    "MIGRATION_SERVICE_OWNER_DATABASE_URL": "owner_database_url",
    "REDIS_URL": "redis_url",
    "MIGRATION_SERVICE_SECRET_KEY": "secret_key",
    "MIGRATION_SERVICE_ACCEPTED_SECRET_KEYS": "accepted_secret_keys",
    "MIGRATION_SERVICE_SMTP_URL": "smtp_url",
    "MIGRATION_SERVICE_METRICS_TOKEN": "metrics_token",
    "MIGRATION_SERVICE_OPENID_CLIENT_SECRET": "openid_client_secret",
}


@pytest.mark.parametrize("ending", ["", "\n", "\r\n"])
def test_each_secret_can_be_in_a_file(ending: str, tmp_path: Path) -> None:
    _save(tmp_path, {"DATABASE_URL": "saved", "MIGRATION_SERVICE_SMTP_URL": "saved"})  # not read at all
    environ = {"MIGRATION_SERVICE_HOME": str(tmp_path)}
    for variable in SECRETS:
        (tmp_path / variable).write_bytes(f"{variable} with at least 32 characters.{ending}".encode())
        environ[f"{variable}_FILE"] = str(tmp_path / variable)
    settings = Settings.from_env(environ)
    assert {variable: getattr(settings, name) for variable, name in SECRETS.items()} == {
        variable: f"{variable} with at least 32 characters." for variable in SECRETS
    }


def test_what_is_no_secret_is_not_read_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "level").write_text("DEBUG")
    environ = {**NEEDED, "MIGRATION_SERVICE_LOG_LEVEL_FILE": str(tmp_path / "level")}
    assert Settings.from_env(environ).log_level == "INFO"


def test_a_secret_that_cannot_be_read_from_its_file_is_named(tmp_path: Path) -> None:
    file = tmp_path / "url"
    environ = {**NEEDED, "DATABASE_URL_FILE": str(file)}
    with pytest.raises(SettingsError) as both:
        Settings.from_env(environ)
    assert str(both.value) == "DATABASE_URL and DATABASE_URL_FILE are both set. Set one of them."
    del environ["DATABASE_URL"]
    with pytest.raises(SettingsError) as missing:
        Settings.from_env(environ)
    assert str(missing.value) == (f"DATABASE_URL_FILE: {file} cannot be read: No such file or directory.")
    file.write_text("\n")
    with pytest.raises(SettingsError) as empty:
        Settings.from_env(environ)
    assert str(empty.value) == f"DATABASE_URL_FILE: {file} is empty."
    file.write_bytes(b"\xff")
    with pytest.raises(SettingsError, match="it is not text in UTF-8"):
        Settings.from_env(environ)


def test_an_empty_file_of_a_secret_that_is_optional_counts_as_not_set(tmp_path: Path) -> None:
    (tmp_path / "token").touch()
    environ = {**NEEDED, "MIGRATION_SERVICE_METRICS_TOKEN_FILE": str(tmp_path / "token")}
    assert Settings.from_env(environ).metrics_token == ""


def test_a_process_does_not_read_the_secrets_that_it_has_no_use_for(tmp_path: Path) -> None:
    environ = {"REDIS_URL": "redis://127.0.0.1/0", "DATABASE_URL_FILE": str(tmp_path / "missing")}
    assert Settings.from_env(environ, without=("database_url", "secret_key")).database_url == ""
