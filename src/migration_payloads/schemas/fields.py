"""The kinds of value in payloads. Each error has its own code and a plain sentence.

The values are those of `schemas.json`: str, int, Decimal, bool, None, list, dict and nothing else. Texts and
numbers have their own modules, and can be imported from here, too.
"""

import re
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, ClassVar

from marshmallow import Schema, ValidationError, fields, missing

from migration_payloads.schemas.bounds import MAX_ERRORS, MAX_ITEMS, MAX_NUMBER_DIGITS
from migration_payloads.schemas.coded import Coded, Messages
from migration_payloads.schemas.messages import Message, kind_of
from migration_payloads.schemas.numbers import Number, NumberText, WholeNumber
from migration_payloads.schemas.texts import (
    Choice,
    Code,
    DocumentPath,
    Ean,
    EmailAddress,
    Identifier,
    NormalIdentifier,
    OpenChoice,
    PhoneNumber,
    Scope,
    Text,
)

__all__ = [
    "Choice",
    "Code",
    "Coded",
    "Day",
    "DocumentPath",
    "Ean",
    "EmailAddress",
    "Flag",
    "FreeObject",
    "Identifier",
    "LocalMoment",
    "Message",
    "NormalIdentifier",
    "Number",
    "NumberText",
    "Object",
    "Objects",
    "OpenChoice",
    "PhoneNumber",
    "Scope",
    "Text",
    "UtcMoment",
    "Values",
    "WholeNumber",
]


class Flag(Coded, fields.Boolean):
    """True or false, or one of the usual words for them, or 1 and 0 (section 2.3, unknown_occupier)."""

    default_error_messages: Messages = {
        "invalid": "{found} is neither true nor false. Send a boolean, or the text 'true' or 'false'."
    }
    usual_personal = False
    usual_parameter: ClassVar[dict[str, Any]] = {"type": "boolean"}
    _WORDS: ClassVar[dict[str, bool]] = {
        str(word).lower(): value
        for words, value in ((fields.Boolean.truthy, True), (fields.Boolean.falsy, False))
        for word in words
    }

    def is_word(self, text: str) -> bool:
        """Return whether a text is one of the words for true and false."""
        return text.lower() in self._WORDS

    def _deserialize(self, value: Any, attr: str | None, data: Any, **kwargs: Any) -> bool:
        if isinstance(value, bool):
            return value
        if isinstance(value, str):
            result = self._WORDS.get(value.lower())
        else:
            result = bool(value) if isinstance(value, int | Decimal) and value in (0, 1) else None
        if result is None:
            raise self.make_error("invalid", input=value)
        return result


class Day(Coded, fields.Date):
    """A date, YYYY-MM-DD (section 2.1)."""

    default_error_messages: Messages = {
        "invalid": Message("{found} is not a valid date of the form YYYY-MM-DD.", "invalid_date")
    }
    _FORM = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)

    def _deserialize(self, value: Any, attr: str | None, data: Any, **kwargs: Any) -> date:
        if not isinstance(value, str) or not self._FORM.fullmatch(value):
            raise self.make_error("invalid", input=value)
        try:
            return date.fromisoformat(value)
        except ValueError as error:
            raise self.make_error("invalid", input=value) from error


class _Moment(Coded):
    usual_personal = False
    _FORM: ClassVar[re.Pattern[str]]

    def _deserialize(self, value: Any, attr: str | None, data: Any, **kwargs: Any) -> datetime:
        if not isinstance(value, str) or not self._FORM.fullmatch(value):
            raise self.make_error("invalid", input=value)
        try:
            return self._normal(datetime.fromisoformat(value))
        except (ValueError, OverflowError) as error:
            raise self.make_error("invalid", input=value) from error

    def _normal(self, moment: datetime) -> datetime:
        return moment


class UtcMoment(_Moment, fields.DateTime):
    """A time with its zone, YYYY-MM-DDTHH:MM:SSZ (section 2.1). Another offset is converted to UTC.

    Fractions of a second are dropped: answers have none, and what an answer says must be the same when it is
    sent back.
    """

    default_error_messages: Messages = {
        "invalid": Message(
            "{found} is not a valid time in UTC of the form YYYY-MM-DDTHH:MM:SSZ.", "invalid_datetime"
        )
    }
    _FORM = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?(Z|[+-]\d\d:\d\d)", re.ASCII)

    def _normal(self, moment: datetime) -> datetime:
        return moment.astimezone(UTC).replace(microsecond=0)


class LocalMoment(_Moment):
    """A time without a zone, YYYY-MM-DDTHH:MM:SS (section 2.3, estimated volumes).

    OpenAPI's `date-time` has a zone, so a pattern is used instead.
    """

    default_error_messages: Messages = {
        "invalid": Message(
            "{found} is not a valid time without a zone, of the form YYYY-MM-DDTHH:MM:SS.", "invalid_datetime"
        )
    }
    _FORM = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?", re.ASCII)
    described: ClassVar[dict[str, Any]] = {"type": "string", "pattern": rf"^{_FORM.pattern}$"}


class FreeObject(Coded, fields.Dict):
    """An object whose keys are the supplier's own (statement_pdf_context)."""

    default_error_messages: Messages = {"invalid": Message("This is {kind}, not an object.", "not_a_dict")}

    def _deserialize(self, value: Any, attr: str | None, data: Any, **kwargs: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise self.make_error("invalid", input=value)
        if fault := _fault_within(value):
            raise ValidationError(fault)
        return value


_TOO_LONG = Message(f"This has a number of more than {MAX_NUMBER_DIGITS} digits.", "number_too_long")
_TOO_LARGE = 10**MAX_NUMBER_DIGITS


def _fault_within(value: Any) -> Message | None:
    """Return why a value cannot be stored, or None. `parse_json` limits its depth."""
    match value:
        case str():
            return Text.default_error_messages["nul"] if "\0" in value else None
        case int():
            return None if -_TOO_LARGE < value < _TOO_LARGE else _TOO_LONG
        case dict():
            return next(filter(None, map(_fault_within, (*value, *value.values()))), None)
        case list():
            return next(filter(None, map(_fault_within, value)), None)
    return None


_TOO_MANY_ITEMS = Message(
    f"This list has more than {MAX_ITEMS:,} items. Send fewer, or use several requests.", "too_many_items"
)


class _Items(Coded):
    """A list. Faulty items keep their positions in the result. Loading stops after too many errors."""

    described: ClassVar[dict[str, Any]] = {"maxItems": MAX_ITEMS}

    def _load_items(self, value: Any, load: Callable[[Any], Any]) -> list[Any]:
        if not isinstance(value, list):
            raise self.make_error("invalid", input=value)
        if len(value) > MAX_ITEMS:
            raise ValidationError(_TOO_MANY_ITEMS)
        result: list[Any] = []
        errors: dict[int, Any] = {}
        count = 0
        for index, item in enumerate(value):
            try:
                result.append(load(item))
            except ValidationError as error:
                errors[index] = error.messages
                result.append(error.valid_data or {})
                count += _count_messages(error.messages)
                if count > MAX_ERRORS:
                    break
        if errors:
            raise ValidationError(errors, valid_data=result)
        return result


class Values(_Items, fields.List[Any]):
    """A list of values of one kind. A faulty value is `{}` in the result."""

    default_error_messages: Messages = {"invalid": Message("This is {kind}, not a list.", "not_a_list")}
    usual_personal = False  # what the items are is said by their own field

    def __init__(self, inner: Any, *about: Any, **kwargs: Any) -> None:
        super().__init__(*about, cls_or_instance=inner, **kwargs)

    def _deserialize(self, value: Any, attr: str | None, data: Any, **kwargs: Any) -> list[Any]:
        return self._load_items(value, self._load_item)

    def _load_item(self, item: Any) -> Any:
        loaded = self.inner.deserialize(item)
        if loaded is missing:
            raise self.inner.make_error("blank")
        return loaded


class Object(Coded, fields.Nested):
    """An object, described by a schema."""

    def __init__(self, schema: Any, *about: Any, **kwargs: Any) -> None:
        super().__init__(*about, nested=schema, **kwargs)

    def _deserialize(
        self, value: Any, attr: str | None, data: Any, partial: Any = None, **kwargs: Any
    ) -> Any:
        return load_object(self.schema, value)


class Objects(_Items, fields.Nested):
    """A list of objects, each described by a schema. An empty list is an error if `empty` is false."""

    default_error_messages: Messages = {
        "invalid": Message("This is {kind}, not a list of objects.", "not_a_list"),
        "empty": "This list may not be empty.",
    }

    def __init__(self, schema: Any, *about: Any, empty: bool = True, **kwargs: Any) -> None:
        self.empty = empty
        super().__init__(*about, nested=schema, many=True, **kwargs)
        if not empty:
            self.metadata = {"minItems": 1, **self.metadata}

    def _deserialize(
        self, value: Any, attr: str | None, data: Any, partial: Any = None, **kwargs: Any
    ) -> Any:
        if value == [] and not self.empty:
            raise self.make_error("empty")
        schema = self.schema
        return self._load_items(value, lambda item: load_object(schema, item))


def load_object(schema: Schema, value: Any) -> Any:
    """Return `value` as `schema` loads it. Raise ValidationError if it is not an object, or has errors."""
    if not isinstance(value, dict):
        message = Message(f"This is {kind_of(value)}, not an object.", "not_a_dict")
        raise ValidationError({"_schema": [message]}, valid_data={})
    return schema.load(value, many=False)


def _count_messages(messages: Any) -> int:
    if isinstance(messages, dict):
        return sum(map(_count_messages, messages.values()))
    return len(messages)
