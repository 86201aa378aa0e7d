"""The settings saved by `migration-service up` in its home folder, for other commands to find its servers."""

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path

from migration_service.config.variables import FILE_SUFFIX, SettingsError

#: If the environment sets any of these, or its `_FILE` variable, `settings.json` is not read.
CONNECTION_VARIABLES = ("DATABASE_URL", "REDIS_URL", "MIGRATION_SERVICE_SECRET_KEY")


def home_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """Return the folder in which the embedded servers keep their data (`MIGRATION_SERVICE_HOME`).

    The default for root is a system folder, and for other users their data folder.
    """
    if chosen := environ.get("MIGRATION_SERVICE_HOME"):
        return Path(chosen).absolute()
    if os.geteuid() == 0:
        return Path("/var/lib/migration-service")
    if sys.platform == "darwin":
        return Path.home() / "Library/Application Support/migration-service"
    return Path(environ.get("XDG_DATA_HOME") or Path.home() / ".local/share") / "migration-service"


def load_saved_settings(home: Path) -> dict[str, str]:
    """Return the settings saved in the home folder by variable name, or none if `up` has never run there."""
    file = home / "settings.json"
    try:
        saved: dict[str, str] = json.loads(file.read_text())
    except FileNotFoundError:
        return {}
    except PermissionError as error:
        raise SettingsError(
            f"This user may not read {file}. Run the command as the user who started the service."
        ) from error
    except ValueError as error:
        raise SettingsError(f"{file} is damaged. Restart `migration-service up`.") from error
    return saved


def given_variables(environ: Mapping[str, str]) -> list[str]:
    """Return the variables of the environment that keep `settings.json` from being read."""
    both = ((variable, variable + FILE_SUFFIX) for variable in CONNECTION_VARIABLES)
    return [name for names in both for name in names if environ.get(name)]


def explain_missing(variable: str, home: Path, environ: Mapping[str, str], saved: Mapping[str, str]) -> str:
    """Return a message with the source that was used, and a remedy."""
    if file := environ.get(variable + FILE_SUFFIX):
        return f"{variable}{FILE_SUFFIX}: {file} is empty."
    if given := given_variables(environ):
        verb = "comes" if len(given) == 1 else "come"
        return (
            f"{variable} is not set. {' and '.join(given)} {verb} from the environment, "
            f"so nothing is read from {home / 'settings.json'}. "
            f"Set {', '.join(CONNECTION_VARIABLES)}, or none of them."
        )
    if saved:
        return f"{variable} is neither set nor in {home / 'settings.json'}. Restart `migration-service up`."
    return (
        f"{variable} is not set, and no running service was found in {home}. "
        "Start one with `migration-service up`, or set the variable."
    )
