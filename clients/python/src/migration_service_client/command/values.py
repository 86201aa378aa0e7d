"""The values of a payload next to their fields: when two say the same, and which are codes."""

import re
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

from marshmallow import Schema
from marshmallow.fields import Field, Nested

from migration_payloads.schemas.account import ACCOUNT_IMPORT
from migration_payloads.schemas.fields import Choice, Code, Flag, Identifier, Number, Values, WholeNumber

_NUMBER = re.compile(r"[+-]?\d{1,60}(\.\d{1,60})?([eE][+-]?\d{1,3})?", re.ASCII)
_ABSENT = object()


def differing_paths(old: Any, new: Any) -> list[str]:
    """Return the dot-delimited paths at which two accounts differ.

    Numbers are compared by value, also where a field takes them as text.
    """
    return list(_differing(old, new, ACCOUNT_IMPORT, ()))


def field_below(field: Field[Any] | Schema | None, name: str) -> Field[Any] | None:
    """Return the field of a member, or None if there is none. Items of a list have the field of the list."""
    if isinstance(field, Nested):
        field = field.schema
    if not isinstance(field, Schema):
        return None
    found: Field[Any] | None = field.fields.get(name)
    return found


def is_code(field: Field[Any]) -> bool:
    """Return whether the values of a field are of a list, so that those that look so may be shown."""
    if not isinstance(field, Choice | Code | Flag | Identifier):
        return False
    return not (field.personal or field.identifying)


def read_number(value: Any, field: Field[Any] | Schema | None) -> Decimal | None:
    """Return a number, or a text where a number is expected, as a Decimal, and None for anything else."""
    if isinstance(value, str) and isinstance(field, Number | WholeNumber) and _NUMBER.fullmatch(value):
        return Decimal(value)
    return Decimal(value) if isinstance(value, int | Decimal) and not isinstance(value, bool) else None


def _differing(old: Any, new: Any, field: Field[Any] | Schema | None, path: tuple[str, ...]) -> Iterator[str]:
    if isinstance(old, dict) and isinstance(new, dict):
        for name in old | new:
            pair = (old.get(name, _ABSENT), new.get(name, _ABSENT))
            yield from _differing(*pair, field_below(field, name), (*path, name))
    elif isinstance(old, list) and isinstance(new, list):
        inner = field.inner if isinstance(field, Values) else field
        for index in range(max(len(old), len(new))):
            pair = (_item(old, index), _item(new, index))
            yield from _differing(*pair, inner, (*path, str(index)))
    elif not _say_the_same(old, new, field):
        yield ".".join(path)


def _item(values: list[Any], index: int) -> Any:
    return values[index] if index < len(values) else _ABSENT


def _say_the_same(old: Any, new: Any, field: Field[Any] | Schema | None) -> bool:
    numbers = (read_number(old, field), read_number(new, field))
    if None not in numbers:
        return numbers[0] == numbers[1]
    # True is 1 to Python.
    return type(old) is type(new) and bool(old == new)
