#!/usr/bin/python3
"""/usr/local/sbin/migration-service: the operators' command, with the settings of the units.

Only root can read the secrets: run it with sudo, whose user is named in the audit trail.
MIGRATION_SERVICE_RELEASE names the folder of another version than the current one.
"""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

SETTINGS = Path("/etc/migration-service")
DATA = "/var/lib/migration-service"
CURRENT = "/opt/migration-service/current"


def parse(text: str) -> dict[str, str]:
    """Return the variables of an EnvironmentFile, as systemd reads it.

    No shell reads it: `<`, `$` and `;` mean themselves in a value. A value may be quoted, as a whole or in
    parts. A backslash outside of single quotes escapes the next character, or continues the line.
    """
    found: dict[str, str] = {}
    characters = iter(text + "\n")
    while character := next(characters, ""):
        is_comment, name = character in "#;", ""
        while character != "\n" and (is_comment or character != "="):
            if is_comment and character == "\\":
                next(characters, "")  # systemd continues comments, too
            name += character
            character = next(characters, "\n")
        if character == "=":
            found[name.strip()] = _read_value(characters)
    return found


def _read_value(characters: Iterator[str]) -> str:
    """Return the value up to the end of its line."""
    value = ""
    kept = 0  # characters that are not blanks at the end
    quote = ""
    begins = True  # only here a quotation mark opens a quoted part
    for character in characters:
        if quote and character == quote:
            quote, begins, kept = "", True, len(value)
        elif character == "\\" and quote != "'":
            escaped = next(characters, "\n")
            if escaped != "\n":
                value += character * (quote == '"' and escaped not in '"\\`$') + escaped
                kept = len(value)
            begins = begins and quote == "" and escaped == "\n"
        elif quote:
            value += character
        elif character == "\n":
            break
        elif begins and character in "'\"":
            quote = character
        elif not (begins and character.isspace()):
            value += character
            begins = False
            kept = kept if character.isspace() else len(value)
    return value[:kept] if not quote else value


def main() -> None:
    """Run the command with the settings and the secrets of this host."""
    os.umask(0o077)
    environment = os.environ | parse((SETTINGS / "environment").read_text())
    environment |= {"MIGRATION_SERVICE_HOME": DATA, "MIGRATION_SERVICE_UPLOAD_FOLDER": DATA}
    for secret in sorted((SETTINGS / "secrets").iterdir()):
        if secret.stat().st_size:
            environment[f"{secret.name}_FILE"] = str(secret)
    program = f"{environment.get('MIGRATION_SERVICE_RELEASE', CURRENT)}/.venv/bin/migration-service"
    os.execve(program, [program, *sys.argv[1:]], environment)


if __name__ == "__main__":
    main()
