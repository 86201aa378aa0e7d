"""A single setting: its description, and the parsing of its environment variable."""

import base64
import math
import os
import pwd
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, Field, field
from ipaddress import ip_network
from pathlib import Path
from typing import Any

#: The suffix of the variable that names the file with a secret.
FILE_SUFFIX = "_FILE"

_SWITCH = {"on": True, "true": True, "1": True, "off": False, "false": False, "0": False}


class SettingsError(Exception):
    """A setting is missing or invalid. The message names the variable."""


def setting(
    help_text: str,
    default: Any = MISSING,
    *,
    env: str = "",
    at_least: float | None = None,
    at_most: float | None = None,
    one_of: Sequence[str] = (),
    check: Callable[[str], bool] | None = None,
    allowed: str = "",
    secret: bool = False,
) -> Any:
    """Return the field of a setting.

    `help_text` is its description for operators. `env` is its variable, unless that follows from its name
    (`variable_of`). Bounds of numbers are inclusive. `one_of` lists the allowed texts, ignoring case. `check`
    returns whether a text is allowed, and `allowed` describes such texts. A `secret` can also be read from a
    file.
    """
    return field(
        default=default,
        metadata={
            "env": env,
            "help": help_text,
            "range": (at_least, at_most),
            "one_of": one_of,
            "check": check,
            "allowed": allowed,
            "secret": secret,
        },
    )


def variable_of(described: Field[Any]) -> str:
    """Return the environment variable of a setting."""
    return described.metadata["env"] or f"MIGRATION_SERVICE_{described.name.upper()}"


def read_text(variable: str, environ: Mapping[str, str], *, secret: bool) -> str:
    """Return the value of a variable, or for a secret the contents of the file named by VARIABLE_FILE.

    A line break at the end of the file is ignored. Raise SettingsError if both variables are set, or if the
    file cannot be read.
    """
    text, file = environ.get(variable, ""), environ.get(variable + FILE_SUFFIX, "") if secret else ""
    if not file:
        return text
    if text:
        raise SettingsError(f"{variable} and {variable}{FILE_SUFFIX} are both set. Set one of them.")
    try:
        return Path(file).read_text().removesuffix("\n").removesuffix("\r")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text in UTF-8"
        raise SettingsError(f"{variable}{FILE_SUFFIX}: {file} cannot be read: {reason}.") from error


def convert(described: Field[Any], text: str) -> Any:
    """Return the value of a setting. Raise SettingsError if `text` is not allowed."""
    try:
        return _convert(described, text)
    except ValueError as error:
        found = "" if described.metadata["secret"] else f", not {text!r}"
        must_be = f"{variable_of(described)} must be {describe_allowed(described)}"
        raise SettingsError(f"{must_be}{found}.") from error


def describe_allowed(described: Field[Any]) -> str:
    """Return the end of the sentence "VARIABLE must be ...", or an empty string if any text is allowed."""
    if described.type is bool:
        return "on or off"
    if described.type is int or described.type is float:
        least, most = described.metadata["range"]
        kind = "a whole number" if described.type is int else "a number"
        return f"{kind} of {least} or more" if most is None else f"{kind} from {least} to {most}"
    if choices := described.metadata["one_of"]:
        return f"{', '.join(choices[:-1])} or {choices[-1]}"
    return str(described.metadata["allowed"])


def _convert(described: Field[Any], text: str) -> Any:
    metadata = described.metadata
    if described.type is bool:
        return _find(text.lower(), _SWITCH)
    if choices := metadata["one_of"]:
        return _find(text.lower(), {choice.lower(): choice for choice in choices})
    if described.type is int or described.type is float:
        number = described.type(text)
        least, most = metadata["range"]
        if not least <= number <= (math.inf if most is None else most) or number == math.inf:
            raise ValueError
        return number
    if metadata["check"] and not metadata["check"](text):
        raise ValueError
    return text


def _find(text: str, choices: Mapping[str, Any]) -> Any:
    if text not in choices:
        raise ValueError
    return choices[text]


def are_networks(text: str) -> bool:
    """Return whether the text is a list of networks, such as 10.0.0.0/8, separated by commas."""
    try:
        return bool([ip_network(it.strip()) for it in text.split(",") if it.strip()] or not text.strip())
    except ValueError:
        return False


def are_keys(text: str) -> bool:
    """Return whether the text is a list of keys of 32 bytes in URL-safe Base64, separated by commas."""
    keys = [it.strip() for it in text.split(",") if it.strip()]
    try:
        return all(len(base64.b64decode(it, b"-_", validate=True)) == 32 for it in keys)
    except ValueError:
        return False


def is_key(text: str) -> bool:
    """Return whether the text is one key of 32 bytes in URL-safe Base64, or empty."""
    return are_keys(text) and "," not in text


def system_user(environ: Mapping[str, str] = os.environ) -> str:
    """Return the system user who runs a command, and, if sudo tells, on whose behalf."""
    try:
        name = pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:  # a container may run as a user id without a name
        name = str(os.geteuid())
    behalf = environ.get("SUDO_USER")
    return f"{name} (sudo: {behalf})" if behalf else name


def read_secret(variable: str, environ: Mapping[str, str] = os.environ) -> str:
    """Return the secret in an environment variable named by an operator (`vendors create --secret-env`).

    Like a secret setting, it can be in a file named by VARIABLE_FILE. Raise SettingsError if the variable is
    missing, or if its value cannot be sent in an HTTP header because it has characters other than visible
    ASCII, commonly a line break at the end. The message names the variable, but never its value.
    """
    secret = read_text(variable, environ, secret=True)
    if not secret:
        raise SettingsError(f"{variable} is not set.")
    if not all("!" <= character <= "~" for character in secret):
        raise SettingsError(
            f"{variable} must hold visible ASCII characters only, without spaces or line breaks."
        )
    return secret
