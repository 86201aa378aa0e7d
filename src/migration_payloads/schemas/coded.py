"""The base of every kind of value: errors with codes, and the description of a field."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, ClassVar

from marshmallow import Schema, ValidationError, fields, missing
from marshmallow.validate import Length, OneOf

from migration_payloads.schemas.messages import Message, kind_of, shown

#: The texts of a field's errors by key. The key is also the code, unless the text is a Message.
Messages = dict[str, Any]


class Described(fields.Field[Any]):
    """A field with its meaning, an example, its unit and sign, and more for OpenAPI.

    The interface description and docs/suppliers/fields.md are generated from it.
    """

    #: The OpenAPI properties of every field of the class, unless the field has its own.
    described: ClassVar[dict[str, Any]] = {}

    def __init__(
        self,
        meaning: str = "",
        example: Any = None,
        *,
        unit: str = "",
        openapi: Mapping[str, Any] = MappingProxyType({}),
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        about = {}
        if meaning:
            text = f"{meaning} {unit[:1].upper()}{unit[1:]}." if unit else meaning
            about = {"description": text, "meaning": meaning, "unit": unit, "example": example}
        self.metadata = {**self.described, **about, **openapi}


def example_of(schema: type[Schema]) -> dict[str, Any]:
    """Return an example of an object: that of each field of its schema."""
    return {name: field.metadata["example"] for name, field in schema().fields.items()}


class Coded(Described):
    """The base of every field of a request. Its errors have codes, and say what was found and expected.

    `personal`, `identifying` and `erased` say what the values are to a person, as `schemas.privacy` explains.
    Messages of a personal field do not repeat the value. `parameter` is the OpenAPI schema that the field has
    in a query string.
    """

    default_error_messages: Messages = {
        "required": "This field is required.",
        "null": "This field may not be null: leave it out.",
        "invalid": "This is not a valid value.",
    }
    #: `personal` of every field of the class, unless the field has its own. None: each field has to say it.
    usual_personal: ClassVar[bool | None] = None
    #: `parameter` of every field of the class, unless the field has its own.
    usual_parameter: ClassVar[dict[str, Any]] = {"type": "string", "minLength": 1}

    def __init__(
        self,
        *about: Any,
        personal: bool | None = None,
        identifying: bool = False,
        erased: bool | None = None,
        parameter: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        self.personal = self.usual_personal if personal is None and not identifying else bool(personal)
        self.identifying = identifying
        self.erased = bool(self.personal or identifying) if erased is None else erased
        super().__init__(*about, **kwargs)
        default = {} if self.load_default is missing else {"default": self.load_default}
        self.parameter = (parameter or self.usual_parameter) | default

    def make_error(self, key: str, **kwargs: Any) -> ValidationError:
        """Return a ValidationError whose message has the code. `input` is the value found."""
        template = self.error_messages[key]
        text = str(template)
        if "{" in text:
            value = kwargs.get("input")
            hidden = self.personal or isinstance(value, list | dict)
            text = text.replace("{kind}", kind_of(value))
            text = text.replace("{found}", "This" if hidden else shown(value))
        return ValidationError(Message(text, getattr(template, "code", key)))


class CodedLength(Length):
    """At most this many characters: code `max_length`."""

    def __call__(self, value: Any) -> Any:
        """Raise unless `value` is short enough."""
        if value is not missing and self.max is not None and len(value) > self.max:
            text = f"This has {len(value)} characters: at most {self.max} are allowed."
            raise ValidationError(Message(text, "max_length"))
        return value


class CodedOneOf(OneOf):
    """One value of a closed list: code `invalid_choice`."""

    def __call__(self, value: Any) -> Any:
        """Raise unless `value` is one of the choices."""
        if value not in self.choices:
            allowed = ", ".join(map(str, self.choices))
            raise ValidationError(Message(f"{shown(value)} is not one of: {allowed}.", "invalid_choice"))
        return value
