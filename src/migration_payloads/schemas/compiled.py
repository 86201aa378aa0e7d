"""A fast path for valid data, compiled from a marshmallow schema when the process starts.

marshmallow takes a millisecond to load an account. Nearly every account is valid, and msgspec loads a valid
one in a tenth of that time. So `compile_schema` derives a msgspec type from a schema. What the type accepts,
marshmallow would load to the same data. What it refuses is loaded by marshmallow, which finds every error and
its message. The type may refuse valid data, and does so in rare cases that are hard to express. It never
accepts invalid data: a property test compares the two.
"""

from collections.abc import Callable
from datetime import date
from functools import partial
from typing import Annotated, Any, Literal, Required, TypedDict

import msgspec
from marshmallow import Schema, ValidationError, missing

from migration_payloads.schemas import fields
from migration_payloads.schemas.bounds import MAX_ITEMS

#: The pattern of the text of each kind of field. msgspec applies it with `re.search`.
_PATTERNS: dict[type[fields.Text], str] = {
    fields.Text: r"\A(?:[^\0]*[!-~][^\0]*)?\Z",
    fields.Identifier: r"\A[!-~][ -~]*\Z",
    fields.NormalIdentifier: r"\A[!-~](?:[ -~]*[!-~])?\Z",
    fields.Code: rf"\A{fields.Code.FORM.pattern}\Z",
    fields.Ean: rf"\A{fields.Ean.FORM.pattern}\Z",
}

_ITEMS = msgspec.Meta(max_length=MAX_ITEMS)


def compile_schema(schema: Schema) -> Callable[[Any], dict[str, Any] | None]:
    """Return a function from a parsed value to what `schema` loads, or to None if the schema is needed.

    Defaults are set at the top level only, because no nested schema has any.
    """
    accepted = object_type(schema, type_of)
    # msgspec reads a type at its first use, and crashes if a second thread uses it meanwhile: use it now.
    msgspec.json.Decoder(accepted, dec_hook=read)
    given = defaults_of(schema)

    def accept(value: Any) -> dict[str, Any] | None:
        try:
            data: dict[str, Any] = msgspec.convert(value, accepted, dec_hook=read)
        except (msgspec.ValidationError, ValidationError):
            return None
        for name, default in given.items():
            data.setdefault(name, default)
        return data

    return accept


def defaults_of(schema: Schema) -> dict[str, Any]:
    """Return the values of members that are absent, by name."""
    defaults = {name: it.load_default for name, it in schema.load_fields.items() if not it.required}
    return {name: value for name, value in defaults.items() if isinstance(value, str | bool | int)}


def compile_shape(schema: Schema) -> Callable[[Any], bool]:
    """Return a function that returns whether a parsed value has only members that `schema` names.

    It checks nothing else. If it returns False, the unknown members must be searched for.
    """
    shape = _shape_of(schema)
    msgspec.json.Decoder(shape)  # use the type now, as above

    def has_known_members(value: Any) -> bool:
        try:
            msgspec.convert(value, shape)
        except (msgspec.ValidationError, RecursionError):
            return False
        return True

    return has_known_members


def _shape_of(schema: Schema) -> Any:
    members: list[tuple[str, Any, Any]] = []
    for name, field in schema.load_fields.items():
        member: Any = Any
        if isinstance(field, fields.Objects):
            member = list[_shape_of(field.schema)]  # type: ignore[misc]
        elif isinstance(field, fields.Object):
            member = _shape_of(field.schema)
        members.append((name, member, None))
    return msgspec.defstruct(type(schema).__name__, members, forbid_unknown_fields=True, gc=False)


class _Anything(type):
    def __instancecheck__(cls, instance: object) -> bool:
        return True  # msgspec asks whether the result of `read` is of the type, which the field has ensured


def read(kind: Any, value: Any) -> Any:
    """Return a value of a custom type as its field loads it. msgspec calls this."""
    return kind.read(value)


def _read_present(read: Callable[[Any], Any], value: Any) -> Any:
    result = read(value)
    if result is missing:  # an empty text that counts as absent
        raise ValidationError("absent")
    return result


def custom_type(name: str, read: Callable[[Any], Any]) -> Any:
    """Return a type whose values `read` returns. It raises marshmallow's ValidationError for other values."""
    return _Anything(name, (), {"read": staticmethod(read)})


def type_of(field: Any, nested: "TypeOf | None" = None) -> Any:
    """Return the msgspec type of a field, with `nested` for the fields within it."""
    below = nested or type_of
    limit: Any = field.validators[0] if field.validators else None
    match field:
        case fields.Text() if type(field) in _PATTERNS:
            shortest = 0 if field.blank else 1
            pattern = _PATTERNS[type(field)]
            form = msgspec.Meta(min_length=shortest, max_length=limit.max, pattern=pattern)
            result: Any = Annotated[str, form]
        case fields.Choice():
            result = Literal[tuple(limit.choices)]
        case fields.OpenChoice():
            result = Literal[tuple(str(word.value) for word in field.vocabulary)]
        case fields.Day():
            result = date
        case fields.WholeNumber():
            result = Annotated[int, msgspec.Meta(gt=-(2**31), lt=2**31)]
        case fields.Values():
            result = Annotated[list[below(field.inner)], _ITEMS]  # type: ignore[misc]
        case fields.Object():
            result = object_type(field.schema, below)
        case fields.Objects() if field.empty:
            result = Annotated[list[object_type(field.schema, below)], _ITEMS]  # type: ignore[misc]
        case _:
            # `deserialize` also runs validators and checks for null, which is not needed without validators.
            plain = not field.validators and not field.allow_none
            read = partial(field._deserialize, attr=None, data=None) if plain else field.deserialize
            if isinstance(field, fields.Text) and not field.blank and not field.required:
                read = partial(_read_present, read)
            result = custom_type(type(field).__name__, read)
    return result


TypeOf = Callable[[Any], Any]


def object_type(schema: Schema, type_of: TypeOf) -> Any:
    """Return the msgspec type for objects of a schema. `type_of` determines the types of the fields."""
    members = {}
    for name, field in schema.load_fields.items():
        member = type_of(field)
        if field.allow_none:
            member = member | None
        members[name] = Required[member] if field.required else member
    return TypedDict(type(schema).__name__, members, total=False)  # type: ignore[operator]
