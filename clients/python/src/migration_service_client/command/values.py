"""The fields of the values of a payload, and which of them have codes."""

from typing import Any

from marshmallow import Schema
from marshmallow.fields import Field, Nested

from migration_payloads.schemas.fields import Choice, Code, Flag, Identifier


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
