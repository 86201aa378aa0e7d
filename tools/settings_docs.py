"""Write docs/operators/settings.md from `config.Settings`. A test compares the two."""

import re
import textwrap
from dataclasses import MISSING, fields
from pathlib import Path

from migration_service.config import Settings, variable_of
from migration_service.config.variables import describe_allowed

FILE = Path(__file__).parent.parent / "docs/operators/settings.md"

_HEAD = """# Settings

Written by `make docs` from `config/settings.py`; do not edit it by hand.

A setting comes from its environment variable, or else from its default. `migration-service up` saves the
settings of its servers in `settings.json` in the home folder, so that other commands find them. That file
is used only if none of `DATABASE_URL`, `REDIS_URL` and `MIGRATION_SERVICE_SECRET_KEY` is in the
environment: set all three of them, or none. Brackets have the default of a setting, and what is allowed.

A *secret* can be in a file, whose path is in a variable with `_FILE` at its end, such as
`DATABASE_URL_FILE`. A line break at its end does not count, and an empty file counts as not set. A process
does not start if both variables are set, or if it cannot read the file.

"""


def render() -> str:
    """Return the text of docs/operators/settings.md."""
    rows = []
    for setting in fields(Settings):
        default = "must be set" if setting.default is MISSING else f"`{setting.default}`"
        if setting.name == "home":
            default = "the user's data folder; for root /var/lib/migration-service"
        elif setting.default == "":
            default = "empty"
        elif isinstance(setting.default, bool):
            default = "`on`" if setting.default else "`off`"
        variable, help_text = variable_of(setting), setting.metadata["help"]
        if setting.metadata["secret"]:
            help_text += " *Secret.*"
        allowed = re.sub("^a (whole )?number (of|from) ", "", describe_allowed(setting))
        allowed = re.sub(r"^(\d+) or more$", r"≥\1", allowed)
        facts = f"{default}; {allowed}" if allowed else default
        text = f"- `{variable}` ({facts}): {help_text}"
        rows.append(
            textwrap.fill(text, 150, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
        )
    return _HEAD + "\n".join(rows) + "\n"


if __name__ == "__main__":
    FILE.write_text(render())
