"""Every setting, and the only package that reads the environment.

A setting comes from its environment variable, or else from its default. A secret may be in a file that the
variable with `_FILE` at its end names. `migration-service up` saves the
settings of its servers in `settings.json` in the home folder, so that other commands find them. That file is
used as a whole, and only if the environment names no server and no secret key: one command never connects to
servers of two services.
"""

from migration_service.config.saved import CONNECTION_VARIABLES, home_folder, load_saved_settings
from migration_service.config.settings import Settings, is_setting
from migration_service.config.variables import SettingsError, read_secret, system_user

__all__ = [
    "CONNECTION_VARIABLES",
    "Settings",
    "SettingsError",
    "home_folder",
    "is_setting",
    "load_saved_settings",
    "read_secret",
    "system_user",
]
