"""Compare the lock files with a database of advisories: `make audit ADVISORIES=...`.

The database is a dump of OSV for PyPI: a folder of JSON files, a zip file of them, or the address of one,
which can be a mirror of your own. Nothing is sent anywhere. The exit status is 0 if no locked version is
named, 1 if one is, and 2 if nothing was checked.
"""

from __future__ import annotations

import argparse
import io
import json
import re
import sys
import urllib.request
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

ROOT = Path(__file__).resolve().parent.parent
LOCKS = sorted(
    [*ROOT.glob("requirements*.lock"), *ROOT.glob("*/requirements.lock"), *ROOT.glob("tools/*/*.lock")]
)
_PINNED = re.compile(r"^([A-Za-z0-9._-]+)==([^\s;\\]+)", re.MULTILINE)
_NO_DATABASE = 2


@dataclass(frozen=True, order=True)
class Finding:
    """A locked version that an advisory names."""

    package: str
    version: str
    advisory: str
    summary: str
    fixed: str


class NoDatabaseError(Exception):
    """There is no database to compare with. The message says why."""


def read_locks(locks: list[Path]) -> set[tuple[str, str]]:
    """Return the name and the version of everything that the lock files pin."""
    return {
        (canonicalize_name(name), version)
        for lock in locks
        for name, version in _PINNED.findall(lock.read_text())
    }


def read_advisories(place: str) -> Iterator[dict[str, Any]]:
    """Yield the advisories of a folder, a zip file or an address. Raise NoDatabaseError if there are none."""
    if not place:
        raise NoDatabaseError("no database was named: pass ADVISORIES=PATH")
    try:
        texts = list(_texts(place))
    except (OSError, zipfile.BadZipFile) as error:
        raise NoDatabaseError(f"{place} cannot be read: {error}") from error
    if not texts:
        raise NoDatabaseError(f"{place} has no JSON files")
    for text in texts:
        yield json.loads(text)


def _texts(place: str) -> Iterator[bytes]:
    if place.startswith(("http://", "https://")):
        with urllib.request.urlopen(place, timeout=60) as answer:  # noqa: S310 - the two schemes above
            yield from _unzip(io.BytesIO(answer.read()))
    elif Path(place).is_dir():
        yield from (file.read_bytes() for file in sorted(Path(place).rglob("*.json")))
    else:
        yield from _unzip(io.BytesIO(Path(place).read_bytes()))


def _unzip(file: io.BytesIO) -> Iterator[bytes]:
    with zipfile.ZipFile(file) as archive:
        yield from (archive.read(name) for name in archive.namelist() if name.endswith(".json"))


def find(locked: set[tuple[str, str]], advisories: Iterator[dict[str, Any]]) -> list[Finding]:
    """Return the locked versions that the advisories name. Withdrawn advisories are ignored."""
    versions = dict(locked) if len(dict(locked)) == len(locked) else None
    names = {name for name, _ in locked}
    found = set()
    for advisory in advisories:
        for affected in () if advisory.get("withdrawn") else advisory.get("affected", ()):
            package = affected.get("package", {})
            name = canonicalize_name(package.get("name", ""))
            if package.get("ecosystem") != "PyPI" or name not in names:
                continue
            for version in [versions[name]] if versions else [it for its, it in locked if its == name]:
                if is_affected(version, affected):
                    summary = advisory.get("summary") or advisory.get("details", "")[:100]
                    found.add(Finding(name, version, advisory["id"], summary, ", ".join(_fixes(affected))))
    return sorted(found)


def is_affected(version: str, affected: dict[str, Any]) -> bool:
    """Return True if an entry of an advisory covers a version: it is listed, or is in a range."""
    if version in affected.get("versions", ()):
        return True
    return any(
        _is_within(Version(version), entry["events"])
        for entry in affected.get("ranges", ())
        if entry.get("type") == "ECOSYSTEM"
    )


def _is_within(version: Version, events: list[dict[str, str]]) -> bool:
    within = False
    for event in sorted(events, key=lambda event: _parse(next(iter(event.values())))):
        kind, text = next(iter(event.items()))
        moment = _parse(text)
        if kind == "introduced" and version >= moment:
            within = True
        elif (kind == "fixed" and version >= moment) or (kind == "last_affected" and version > moment):
            within = False
    return within


def _parse(text: str) -> Version:
    try:
        return Version(text)
    except InvalidVersion:
        return Version("0")


def _fixes(affected: dict[str, Any]) -> list[str]:
    events = [event for entry in affected.get("ranges", ()) for event in entry.get("events", ())]
    return sorted({event["fixed"] for event in events if "fixed" in event})


def main() -> int:
    """Print what was found, and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument(
        "advisories", nargs="?", default="", help="folder, zip file or address of an OSV dump"
    )
    locked = read_locks(LOCKS)
    try:
        found = find(locked, read_advisories(parser.parse_args().advisories))
    except NoDatabaseError as error:
        sys.stderr.write(
            f"Nothing was checked: {error}. Name a dump of OSV for PyPI, for example of your mirror: "
            "make audit ADVISORIES=/srv/osv/PyPI/all.zip\n"
        )
        return _NO_DATABASE
    for it in found:
        print(f"{it.package} {it.version}: {it.advisory}, fixed in {it.fixed or 'no version'}: {it.summary}")
    print(f"{len(locked)} versions in {len(LOCKS)} lock files: {len(found)} advisories name them.")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
