"""Every setting, and the only package that reads the environment.

A setting is read from its environment variable, or else has its default. A secret can be in a file named by
the variable with the suffix `_FILE`. `migration-service up` saves the settings of its servers in
`settings.json` in the home folder, so that other commands find them. That file is used as a whole, and only
if the environment names no server and no secret key, so that a command never connects to servers of two
services.
"""

from migration_service.config.saved import CONNECTION_VARIABLES, home_folder, load_saved_settings
from migration_service.config.settings import Settings, is_setting
from migration_service.config.variables import SettingsError, read_secret, system_user, variable_of

__all__ = [
    "CONNECTION_VARIABLES",
    "Settings",
    "SettingsError",
    "home_folder",
    "is_setting",
    "load_saved_settings",
    "read_secret",
    "system_user",
    "variable_of",
]
