"""The place of a finding: the value at fault, and what is around it in the payload."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date
from decimal import Context, Decimal, InvalidOperation
from functools import cached_property, lru_cache, reduce
from typing import Any

from marshmallow import ValidationError, missing
from marshmallow.fields import Field

from migration_payloads.errors import Confidence, Operation, Suggestion
from migration_payloads.rules.account import Path
from migration_payloads.schemas.account import ACCOUNT_IMPORT
from migration_payloads.schemas.base import field_below
from migration_payloads.schemas.fields import Values

Steps = list[Suggestion]
#: From the least sure to the surest.
ORDER = (Confidence.GUESS, Confidence.LIKELY, Confidence.CERTAIN)
_LONGEST_NUMBER = 60


@dataclass(frozen=True)
class Place:
    """The path of a finding in a parsed payload (section 2.3), as it was sent.

    `value` is `missing` if nothing is there. `parent` is the object or list that it is in.
    """

    payload: dict[str, Any]
    code: str
    path: Path
    parent: Any
    value: Any

    @property
    def name(self) -> str | int:
        """Return the name of the member, or the index in the list."""
        return self.path[-1]

    @cached_property
    def field(self) -> Field[Any] | None:
        """Return the field that describes the value, or None if there is none."""
        return find_field(self.path)

    def above(self, levels: int) -> Any:
        """Return the value that is `levels` above: 1 is the parent."""
        return get(self.payload, self.path[:-levels])

    def replace(self, value: Any, sure: Confidence, path: Path | None = None) -> Suggestion:
        """Return the suggestion to have this value at the path, by default that of the finding."""
        path = self.path if path is None else path
        op = Operation.ADD if get(self.payload, path) is missing else Operation.REPLACE
        return Suggestion(op, write_path(path), sure, value=value)

    def remove(self, sure: Confidence, path: Path | None = None) -> Suggestion:
        """Return the suggestion to leave out what is at the path, by default that of the finding."""
        return Suggestion(Operation.REMOVE, write_path(self.path if path is None else path), sure)

    def accepts(self, value: Any) -> bool:
        """Return whether the field at fault is valid with this value."""
        return self.field is not None and is_accepted(self.field, value)


def find_place(payload: Any, code: str, attr: str) -> Place | None:
    """Return the place at a path as error objects have it, or None if the payload has no such place."""
    here: Any = payload
    parent: Any = None
    path: list[str | int] = []
    for part in attr.split("."):
        parent = here
        if isinstance(parent, list) and part.isdecimal() and int(part) < len(parent):
            path.append(int(part))
            here = parent[int(part)]
        elif isinstance(parent, dict):
            path.append(part)
            here = parent.get(part, missing)
        else:
            return None
    return Place(payload, code, tuple(path), parent, here)


def get(payload: Any, path: Path) -> Any:
    """Return the value at a path, or `missing`."""
    here = payload
    for part in path:
        is_index = isinstance(here, list) and isinstance(part, int) and part < len(here)
        if not is_index and not (isinstance(here, dict) and part in here):
            return missing
        here = here[part]
    return here


def write_path(path: Path) -> str:
    """Return a path in the form of section 7.2."""
    return ".".join(map(str, path))


def pattern_of(path: Path) -> str:
    """Return the path with `*` for each index."""
    return ".".join("*" if isinstance(part, int) else part for part in path)


def find_field(path: Path) -> Field[Any] | None:
    """Return the field of the account payload at a path, or None if there is none."""
    return _find_field(tuple(part for part in path if isinstance(part, str)), isinstance(path[-1], int))


@lru_cache(1024)
def _find_field(names: tuple[str, ...], is_item: bool) -> Field[Any] | None:
    above: Any = ACCOUNT_IMPORT
    found: Any = reduce(field_below, names, above)
    return found.inner if is_item and isinstance(found, Values) else found


def may_be_personal(place: Place | None, *values: Any) -> bool:
    """Return whether values at a place may be those of a person."""
    if place is None or place.field is None or any(isinstance(it, list | dict) for it in values):
        return True
    return getattr(place.field, "personal", True)


def is_accepted(field: Field[Any], value: Any) -> bool:
    """Return whether a value of a payload is valid for a field."""
    try:
        field.deserialize(value)
    except ValidationError:
        return False
    return True


def lesser(one: Confidence, other: Confidence) -> Confidence:
    """Return the confidence that is less sure."""
    return min(one, other, key=ORDER.index)


def number(value: Any) -> Decimal | None:
    """Return a number, which may be text, as a Decimal, or None."""
    if isinstance(value, bool) or not isinstance(value, int | str | Decimal):
        return None
    if isinstance(value, str) and len(value) > _LONGEST_NUMBER:
        return None
    try:
        found = Decimal(value)
    except (InvalidOperation, ValueError):
        return None
    return found if found.is_finite() else None


def is_noise(old: Decimal, new: Decimal) -> bool:
    """Return whether a number differs from a rounded one only as a calculation with 15 digits leaves it."""
    return Context(prec=15).create_decimal(old) == new


def like(new: Decimal, old: Any) -> Any:
    """Return a number as the old value was sent: as text, or as a number."""
    return format(new, "f") if isinstance(old, str) else new


def day(value: Any) -> date | None:
    """Return a date that is written as YYYY-MM-DD, or None."""
    try:
        return date.fromisoformat(value) if isinstance(value, str) and len(value) == 10 else None
    except ValueError:
        return None


def is_among(value: Any, others: Iterable[Any]) -> bool:
    """Return whether a value is equal to another one, member by member. True is not the number 1."""
    return any(_written(value) == _written(other) for other in others)


def _written(value: Any) -> Any:
    match value:
        case dict():
            return {name: _written(below) for name, below in value.items()}
        case list():
            return [_written(below) for below in value]
    return type(value) is bool, value


def objects(value: Any) -> list[dict[str, Any]]:
    """Return the objects of a list, or nothing if it is none."""
    return [it for it in value if isinstance(it, dict)] if isinstance(value, list) else []
