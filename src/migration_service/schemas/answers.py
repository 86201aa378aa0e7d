"""The kinds of value in responses. Each takes its meaning and an example first."""

from enum import StrEnum
from typing import Any, ClassVar

from marshmallow import Schema, fields

from migration_payloads.moments import write_moment
from migration_payloads.schemas.coded import Described, example_of


class String(Described, fields.String):
    """A text. `words` are the values that it can have."""

    def __init__(self, *about: Any, words: type[StrEnum] | list[str] | None = None, **kwargs: Any) -> None:
        super().__init__(*about, **kwargs)
        if words is not None:
            self.metadata = {**self.metadata, "enum": [*map(str, words), *[None] * self.allow_none]}


class Integer(Described, fields.Integer):
    """A whole number."""


class Float(Described, fields.Float):
    """A number."""


class Sum(Float):
    """A sum over tables. A value there that JSON does not have, such as NaN, is a text."""

    def __init__(self, *about: Any, **kwargs: Any) -> None:
        super().__init__(*about, **kwargs)
        self.metadata = {**self.metadata, "type": ["number", "string"]}


class Boolean(Described, fields.Boolean):
    """True or false."""


class UUID(Described, fields.UUID):
    """An id."""


class Moment(Described, fields.DateTime):
    """A time, YYYY-MM-DDTHH:MM:SSZ (section 2.1)."""

    def _serialize(self, value: Any, attr: str | None, obj: Any, **kwargs: Any) -> str | None:
        return None if value is None else write_moment(value)


class Raw(Described, fields.Raw):
    """A value of any kind."""


class Dict(Described, fields.Dict):
    """An object without a schema."""


class Counts(Dict):
    """Numbers of things by name."""

    described: ClassVar[dict[str, Any]] = {
        "type": "object",
        "additionalProperties": {"type": "integer", "minimum": 0},
    }


class Nested(Described, fields.Nested):
    """An object of this schema, whose example is that of the schema if no other is given."""

    def __init__(self, schema: type[Schema], meaning: str = "", *example: Any, **kwargs: Any) -> None:
        if meaning and not example:
            example = (example_of(schema),)
        super().__init__(meaning, *example, nested=schema, **kwargs)


class List(Described, fields.List[Any]):
    """A list of objects of a schema, or of values of another kind."""

    def __init__(
        self, items: type[Schema] | type[String] | Dict, meaning: str, *example: Any, **kwargs: Any
    ) -> None:
        inner: Any = items
        if isinstance(items, type) and issubclass(items, Schema):
            inner = Nested(items)
            example = example or ([example_of(items)],)
        super().__init__(meaning, *example, cls_or_instance=inner, **kwargs)
