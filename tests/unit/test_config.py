"""Settings are read in one place and documented. Errors have the name of the variable."""

from dataclasses import MISSING, fields
from pathlib import Path

from migration_service.config import Settings, variable_of

NEEDED = {
    "DATABASE_URL": "postgresql://u:p@127.0.0.1/db",
    "REDIS_URL": "redis://127.0.0.1/0",
    "MIGRATION_SERVICE_SECRET_KEY": "x" * 32,
}


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


def test_a_process_does_not_read_the_secrets_that_it_has_no_use_for(tmp_path: Path) -> None:
    environ = {"REDIS_URL": "redis://127.0.0.1/0", "DATABASE_URL_FILE": str(tmp_path / "missing")}
    assert Settings.from_env(environ, without=("database_url", "secret_key")).database_url == ""
