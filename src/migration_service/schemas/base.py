"""The base of every schema, and loading: what was sound, and every error with its path."""

from typing import Any, ClassVar

from marshmallow import EXCLUDE, Schema, ValidationError
from marshmallow.fields import Field, Nested

from migration_service.errors import ErrorItem
from migration_service.schemas.fields import Message


class Fields(Schema):
    """A schema whose unknown fields are dropped (section 2.1 asks clients not to send them)."""

    error_messages: dict[str, str] = {"type": Message("This is not an object.", "not_a_dict")}

    class Meta(Schema.Meta):
        """Options of marshmallow."""

        unknown = EXCLUDE


class Answer(Fields):
    """What an endpoint answers. Each of its fields is always there, except those in `optional`."""

    #: Fields that an answer may lack.
    optional: ClassVar[frozenset[str]] = frozenset()

    def on_bind_field(self, field_name: str, field_obj: Field[Any]) -> None:
        """Describe the field as required, which changes nothing for dumping."""
        field_obj.required = field_name not in self.optional


def load(schema: Schema, value: Any) -> tuple[Any, list[ErrorItem]]:
    """`value` as `schema` reads it: what was sound, and all errors in the order of the fields.

    With errors, faulty values are absent from the result; objects in lists keep their places, and
    one that is not an object at all is `{}` there.
    """
    try:
        return schema.load(value), []
    except ValidationError as error:
        errors: list[ErrorItem] = []
        _collect(error.messages, (), errors)
        return error.valid_data or {}, errors


def _collect(messages: Any, path: tuple[str, ...], errors: list[ErrorItem]) -> None:
    if isinstance(messages, dict):
        for key, below in messages.items():
            _collect(below, path if key == "_schema" else (*path, str(key)), errors)
        return
    for message in messages:
        code = getattr(message, "code", "invalid")
        errors.append(ErrorItem(code, str(message), ".".join(path) or None))


def find_unknown_fields(schema: Schema, value: Any, path: tuple[str, ...] = ()) -> list[ErrorItem]:
    """An error for each field of `value` that `schema` does not have, at any depth (strict profile)."""
    if not isinstance(value, dict):
        return []
    errors = []
    for key, below in value.items():
        here = (*path, key)
        field = schema.fields.get(key)
        if field is None:
            detail = "This field is not part of the interface."
            errors.append(ErrorItem("unknown_field", detail, ".".join(here)))
        elif isinstance(field, Nested):
            items = enumerate(below) if isinstance(below, list) else [(None, below)]
            for index, item in items:
                item_path = here if index is None else (*here, str(index))
                errors += find_unknown_fields(field.schema, item, item_path)
    return errors
