"""The values of a payload next to their fields: numbers, and which are codes."""

import re
from decimal import Decimal
from typing import Any

from marshmallow import Schema
from marshmallow.fields import Field, Nested

from migration_payloads.schemas.fields import Choice, Code, Flag, Identifier, Number, WholeNumber

_NUMBER = re.compile(r"[+-]?\d{1,60}(\.\d{1,60})?([eE][+-]?\d{1,3})?", re.ASCII)


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
