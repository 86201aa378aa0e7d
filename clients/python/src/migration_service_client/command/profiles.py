"""Profiles: the addresses and keys of several services, in one file that only its owner can read."""

import json
import os
import stat
from dataclasses import asdict, dataclass
from pathlib import Path

import click

from migration_payloads.files.output import replacing
from migration_service_client.command.errors import CannotRunError

#: The profile that is used if nothing else is given.
DEFAULT = "default"


@dataclass(frozen=True, slots=True)
class Profile:
    """A service and a key for it."""

    url: str
    key: str


def profiles_file() -> Path:
    """Return the file of the profiles, in the user's configuration folder."""
    return Path(click.get_app_dir("migration-client")) / "profiles.json"


def read_profiles() -> dict[str, Profile]:
    """Return the profiles by name. Raise CannotRunError if others may read them, or the file is none."""
    file = profiles_file()
    try:
        mode = file.stat().st_mode
        found = json.loads(file.read_bytes())
        profiles = {name: Profile(**it) for name, it in found.items()}
    except FileNotFoundError:
        return {}
    except (ValueError, TypeError, AttributeError):
        raise CannotRunError(f"{file} is not a file of profiles. Correct it, or remove it.") from None
    if os.name == "posix" and stat.S_IMODE(mode) & 0o077:
        raise CannotRunError(f"Others can read the keys in {file}. Run: chmod 600 {file}")
    return profiles


def read_profile(name: str) -> Profile:
    """Return the profile of this name. Raise CannotRunError if there is none."""
    found = read_profiles()
    if name not in found:
        names = ", ".join(found) or "none"
        raise CannotRunError(f"There is no profile {name!r}. There are: {names}. See configure --help.")
    return found[name]


def write_profiles(profiles: dict[str, Profile]) -> None:
    """Write the file, with the permissions 0600."""
    file = profiles_file()
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not file.exists():
        file.touch(mode=0o600)
    with replacing(file) as out:
        out.write(json.dumps({name: asdict(it) for name, it in profiles.items()}, indent=2).encode())
