"""The base of every schema, and loading, which returns the valid data and every error with its path."""

import json
from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from itertools import islice
from typing import Any, ClassVar, Self

from marshmallow import EXCLUDE, RAISE, Schema, ValidationError
from marshmallow.fields import Field, Nested

from migration_payloads.errors import ErrorItem, quoted
from migration_payloads.schemas.bounds import MAX_ERRORS, MAX_ITEMS, MAX_SHOWN
from migration_payloads.schemas.coded import example_of
from migration_payloads.schemas.fields import Message, load_object
from migration_payloads.schemas.messages import shown

#: Suggestions cost far more than the errors that contain them.
MAX_SUGGESTIONS = 10


class Fields(Schema):
    """A schema whose unknown fields are dropped (section 2.1 asks clients not to send them)."""

    error_messages: dict[str, str] = {"type": Message("This is not an object.", "not_a_dict")}

    def __deepcopy__(self, _memo: dict[int, Any]) -> Self:
        """Return the schema itself. flask-smorest copies it with each decorator of each view, unchanged."""
        return self

    class Meta(Schema.Meta):
        """Options of marshmallow."""

        unknown: ClassVar[Any] = EXCLUDE


class CommandFields(Fields):
    """A schema for a body in which an unknown field at the top level is an error.

    A misspelt `dry_run` must never create an account or a transaction.
    """

    class Meta(Fields.Meta):
        """Options of marshmallow."""

        unknown: ClassVar[Any] = RAISE


class AnswerSchema(Fields):
    """The base of responses. Each field is always present, except those in `optional`."""

    #: Fields that a response may lack.
    optional: ClassVar[frozenset[str]] = frozenset()

    def on_bind_field(self, field_name: str, field_obj: Field[Any]) -> None:
        """Describe the field as required. This does not affect dumping."""
        field_obj.required = field_name not in self.optional

    @classmethod
    def example(cls, **others: Any) -> dict[str, Any]:
        """Return an example of the response: `others`, and for each other field its own example."""
        return example_of(cls) | others


def load(schema: Schema, value: Any) -> tuple[Any, list[ErrorItem]]:
    """Return the valid data that `schema` loads from `value`, and all errors in the order of the fields.

    Faulty values are absent from the result. Objects in lists keep their positions, and an item that is not
    an object is replaced by `{}`. `limit_errors` limits the number of errors.
    """
    errors: list[ErrorItem] = []
    unknown: Iterator[ErrorItem] = iter(())
    if schema.unknown == RAISE and isinstance(value, dict):
        unknown = _find_unknown_members(schema, value, (), {})
        value = {name: below for name, below in value.items() if name in schema.fields}
    try:
        data = load_object(schema, value)
    except ValidationError as error:
        _collect(error.messages, (), errors)
        data = error.valid_data or {}
    errors += islice(unknown, MAX_ERRORS + 1)
    return data, limit_errors(errors)


def field_below(field: Field[Any] | Schema | None, name: str) -> Field[Any] | None:
    """Return the field of a member, or None if there is none. Items of a list have the field of the list."""
    schema = field.schema if isinstance(field, Nested) else field
    return schema.fields.get(name) if isinstance(schema, Schema) else None


def limit_errors(errors: list[ErrorItem]) -> list[ErrorItem]:
    """Return `errors`. If there are too many, return the first `MAX_ERRORS` and one more that says so."""
    if len(errors) <= MAX_ERRORS:
        return errors
    detail = f"Only the first {MAX_ERRORS:,} are listed. Correct them, and send the body again."
    return [*errors[:MAX_ERRORS], ErrorItem("too_many_errors", detail)]


def _collect(messages: Any, path: tuple[str, ...], errors: list[ErrorItem]) -> None:
    if isinstance(messages, dict):
        for key, below in messages.items():
            _collect(below, path if key == "_schema" else (*path, str(key)), errors)
        return
    for message in messages:
        code = getattr(message, "code", "invalid")
        errors.append(ErrorItem(code, str(message), ".".join(path) or None))


def suggest(name: str, known: Iterable[str], likeness: float = 0.6) -> str | None:
    """Return the member of `known` that `name` was probably meant to be, or None.

    `likeness` is the least that they must have in common, from 0 to 1.
    """
    if len(name) > 2 * MAX_SHOWN:
        return None
    folded = {member.replace("_", "").lower(): member for member in known}
    close = get_close_matches(name.replace("_", "").lower(), folded, n=1, cutoff=likeness)
    return folded[close[0]] if close else None


def unknown_word(word: str, known: Iterable[str], what: str, attr: str) -> ErrorItem:
    """Return the error of a word that is not among the known ones, with the one that was probably meant."""
    meant = suggest(word, known)
    hint = f": did you mean {meant}?" if meant else "."
    return ErrorItem("invalid_choice", f"{quoted(word)} is no {what}{hint}", attr)


def find_unknown_fields(schema: Schema, value: Any) -> list[ErrorItem]:
    """Return an item for each field of `value` that is not in `schema`, at any depth.

    Each item suggests the intended field. There are at most `MAX_ERRORS` + 1 items.
    """
    return list(islice(_find_unknown(schema, value, (), {}), MAX_ERRORS + 1))


_Suggestions = dict[tuple[type[Schema], str], str | None]


def _find_unknown(
    schema: Schema, value: Any, path: tuple[str, ...], suggestions: _Suggestions
) -> Iterator[ErrorItem]:
    if not isinstance(value, dict):
        return
    yield from _find_unknown_members(schema, value, path, suggestions)
    for key, below in value.items():
        field = schema.fields.get(key)
        if not isinstance(field, Nested):
            continue
        if not isinstance(below, list):
            yield from _find_unknown(field.schema, below, (*path, key), suggestions)
        elif len(below) <= MAX_ITEMS:  # a longer list is a separate error
            for index, item in enumerate(below):
                yield from _find_unknown(field.schema, item, (*path, key, str(index)), suggestions)


def _find_unknown_members(
    schema: Schema, value: dict[str, Any], path: tuple[str, ...], suggestions: _Suggestions
) -> Iterator[ErrorItem]:
    for key in value:
        if key in schema.fields:
            continue
        known = (type(schema), key)
        if known not in suggestions and len(suggestions) < MAX_SUGGESTIONS:
            suggestions[known] = suggest(key, schema.fields)
        meant = suggestions.get(known)
        detail = f"{shown(key)} is not a field here" + (f": did you mean {meant}?" if meant else ".")
        yield ErrorItem("unknown_field", detail, ".".join((*path, _path_part(key))))


def _path_part(name: str) -> str:
    """Return a member's name for a path, quoted if it has a dot or is unprintable, and shortened if long."""
    if name.isprintable() and "." not in name and '"' not in name and len(name) <= 2 * MAX_SHOWN:
        return name
    return json.dumps(name[: 2 * MAX_SHOWN])
