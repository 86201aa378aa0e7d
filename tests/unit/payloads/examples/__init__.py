"""A valid account as it is sent, and examples of changes to it, which the files of this folder have.

The account has the unusual shapes that suppliers send: a fixed line as the mobile number, empty lines of an
address, a statement with a path and an empty context, two registers under profile E1A, and agreements without
an end.
"""

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from migration_payloads.schemas.account import load_account
from migration_payloads.schemas.json import parse_json

_FOLDER = Path(__file__).parent
TODAY = date(2025, 6, 15)

#: The value of a change that deletes the key.
ABSENT = object()


@dataclass(frozen=True, slots=True)
class Example:
    """Changes to the valid account (`change`), one of the findings in it, and what a correction makes of it.

    No `kind`: there is no suggestion. A row of a file has the change at `attr` as `sent`, the corrected value
    there as `becomes`, the paths whose value is ABSENT as `absent` and `removed`, and an account or a part of
    it that occurs twice as `copy_of`.
    """

    changes: Mapping[str, Any]
    corrected: Mapping[str, Any]
    name: str = ""
    code: str = ""
    attr: str = ""
    severity: str = ""
    detail: str = ""
    kind: str = ""
    confidence: str = ""

    @classmethod
    def of(cls, row: dict[str, Any]) -> "Example":
        """Return the example of a row."""
        for one, several, deleted in (("sent", "changes", "absent"), ("becomes", "corrected", "removed")):
            values = {row["attr"]: row.pop(one)} if one in row else {}
            values |= row.pop(several, {})
            row[several] = values | dict.fromkeys(row.pop(deleted, ()), ABSENT)
        return cls(**row)

    def __str__(self) -> str:
        return self.name or f"{self.code}-{self.attr}"


def _read(name: str) -> list[Example]:
    return [Example.of(parse_json(line)) for line in (_FOLDER / name).read_bytes().splitlines()]


#: For each rule, changes that break it and no other.
BREAKING = _read("breaking.ndjson")
#: Changes that no rule finds.
SOUND = _read("sound.ndjson")
#: Findings of the schema and of rules, in addition to `BREAKING`, with their corrections.
CORRECTED = _read("corrected.ndjson")
_VALID = (_FOLDER / "valid_account.json").read_bytes()


def make_account(changes: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return the valid account as it is sent, with changes."""
    return change(parse_json(_VALID), changes or {})


def load(changes: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return the valid account with changes, as the schema loads it."""
    account: dict[str, Any] = load_account(make_account(changes)).data
    return account


def change(account: dict[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return `account` with each path set to its value. `+` appends, and ABSENT deletes."""
    for path, value in changes.items():
        *above, last = path.split(".")
        parent = _at(account, above)
        key = int(last) if last.isdigit() else last
        if value is ABSENT:
            del parent[key]
        elif key == "+":
            parent.append(_resolve(value, account))
        else:
            parent[key] = _resolve(value, account)
    return account


def _at(account: Any, path: list[str]) -> Any:
    for part in path:
        account = account[int(part) if part.isdigit() else part]
    return account


def _resolve(value: Any, account: dict[str, Any]) -> Any:
    match value:
        case {"copy_of": str(path)}:
            return deepcopy(_at(account, path.split(".")))
        case list():
            return [_resolve(item, account) for item in value]
    return deepcopy(value)
