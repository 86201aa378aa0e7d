"""The kinds of value that payloads hold. Each refuses with a code of its own and a plain sentence.

JSON arrives parsed by `schemas.json`: str, int, Decimal, bool, None, list, dict and nothing else.
"""

import re
from collections.abc import Collection
from datetime import UTC, date, datetime
from decimal import Context, Decimal, Inexact
from enum import StrEnum
from typing import Any, ClassVar

import phonenumbers
from marshmallow import ValidationError, fields
from marshmallow.validate import Email as EmailForm
from marshmallow.validate import Length, OneOf

from migration_service.schemas.moments import write_moment

#: What an amount or a volume may have: integer digits, and digits behind the point.
MAX_INTEGER_DIGITS = 12
MAX_FRACTION_DIGITS = 10

_TOO_LARGE = Decimal(10) ** MAX_INTEGER_DIGITS
_SMALLEST = Decimal(10) ** -MAX_FRACTION_DIGITS
_EXACT = Context(prec=40, traps=[Inexact])


class Message(str):
    """A message with the stable code that the client sees (section 7.2)."""

    __slots__ = ("code",)
    code: str

    def __new__(cls, text: str, code: str) -> "Message":
        message = super().__new__(cls, text)
        message.code = code
        return message

    def __getnewargs__(self) -> tuple[str, str]:  # type: ignore[override]
        return str(self), self.code  # fields are copied together with their messages


#: The texts of a field's errors by key; the key is the code too, unless the text is a Message.
Messages = dict[str, Any]


class Coded(fields.Field[Any]):
    """The base of every field: its errors carry codes."""

    default_error_messages: Messages = {
        "required": "This field is required.",
        "null": "This field may not be null.",
        "invalid": "This is not a valid value.",
    }

    def make_error(self, key: str, **kwargs: Any) -> ValidationError:
        """A ValidationError whose message carries the code."""
        text = self.error_messages[key]
        return ValidationError(Message(str(text), getattr(text, "code", key)))


class CodedLength(Length):
    """At most so many characters: code `max_length`."""

    def __call__(self, value: Any) -> Any:
        """Raise unless `value` is short enough."""
        if self.max is not None and len(value) > self.max:
            raise ValidationError(Message(f"This has more than {self.max} characters.", "max_length"))
        return value


class Text(Coded, fields.String):
    """Text. A number is not text. Empty text is an error (code `blank`) unless `blank` is true."""

    default_error_messages: Messages = {
        "invalid": "This is not text: put it in quotation marks.",
        "blank": "This may not be empty.",
        "nul": Message("This has the character U+0000, which cannot be stored.", "invalid_characters"),
        "control": Message("This has a control character.", "invalid_characters"),
    }

    def __init__(self, *, blank: bool = False, max_length: int = 255, **kwargs: Any) -> None:
        self.blank = blank
        super().__init__(validate=CodedLength(max=max_length), **kwargs)

    def _deserialize(self, value: Any, attr: str | None, data: Any, **kwargs: Any) -> str:
        if not isinstance(value, str):
            raise self.make_error("invalid")
        if not value and not self.blank:
            raise self.make_error("blank")
        if "\0" in value:
            raise self.make_error("nul")
        return value


class Identifier(Text):
    """A supplier's identifier: printable, not only spaces, at most 128 characters."""

    def __init__(self, *, max_length: int = 128, **kwargs: Any) -> None:
        super().__init__(max_length=max_length, **kwargs)

    def _deserialize(self, value: Any, attr: str | None, data: Any, **kwargs: Any) -> str:
        text = super()._deserialize(value, attr, data, **kwargs)
        if not text.strip():
            raise self.make_error("blank")
        if not text.isprintable():
            raise self.make_error("control")
        return text


class CodedOneOf(OneOf):
    """One of a closed list: code `invalid_choice`."""

    def __call__(self, value: Any) -> Any:
        """Raise unless `value` is one of the choices."""
        if value not in self.choices:
            allowed = ", ".join(map(str, self.choices))
            raise ValidationError(Message(f"This is not one of: {allowed}.", "invalid_choice"))
        return value


class Choice(Coded, fields.String):
    """One word of a closed list of the specification."""

    default_error_messages: Messages = {"invalid": "This is not text."}

    def __init__(self, vocabulary: type[StrEnum], **kwargs: Any) -> None:
        super().__init__(validate=CodedOneOf([member.value for member in vocabulary]), **kwargs)

    def _deserialize(self, value: Any, attr: str | None, data: Any, **kwargs: Any) -> str:
        if not isinstance(value, str):
            raise self.make_error("invalid")
        return value


class Code(Text):
    """An upper-case word, where the specification shows values but no closed list."""

    default_error_messages: Messages = {
        "form": Message(
            "This is not a code: upper-case letters, digits and underscores, starting with a letter.",
            "invalid_choice",
        ),
    }
    #: What a code looks like.
    FORM = re.compile(r"[A-Z][A-Z0-9_]*", re.ASCII)

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(max_length=64, **kwargs)

    def _deserialize(self, value: Any, attr: str | None, data: Any, **kwargs: Any) -> str:
        text = super()._deserialize(value, attr, data, **kwargs)
        if not self.FORM.fullmatch(text):
            raise self.make_error("form")
        return text


class Flag(Coded, fields.Boolean):
    """True or false, also as the text "true" or "false" (section 2.3, unknown_occupier)."""

    default_error_messages: Messages = {"invalid": "This is neither true nor false."}
    _VALUES: ClassVar[dict[str, bool]] = {"true": True, "True": True, "false": False, "False": False}

    def _deserialize(self, value: Any, attr: str | None, data: Any, **kwargs: Any) -> bool:
        if isinstance(value, str):
            value = self._VALUES.get(value)
        if not isinstance(value, bool):
            raise self.make_error("invalid")
        return value


class Day(Coded, fields.Date):
    """A date, YYYY-MM-DD (section 2.1)."""

    default_error_messages: Messages = {
        "invalid": Message("This is not a date of the calendar, written YYYY-MM-DD.", "invalid_date")
    }
    _FORM = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)

    def _deserialize(self, value: Any, attr: str | None, data: Any, **kwargs: Any) -> date:
        if not isinstance(value, str) or not self._FORM.fullmatch(value):
            raise self.make_error("invalid")
        try:
            return date.fromisoformat(value)
        except ValueError as error:
            raise self.make_error("invalid") from error


class _Moment(Coded, fields.DateTime):
    _FORM: ClassVar[re.Pattern[str]]

    def _deserialize(self, value: Any, attr: str | None, data: Any, **kwargs: Any) -> datetime:
        if not isinstance(value, str) or not self._FORM.fullmatch(value):
            raise self.make_error("invalid")
        try:
            return self._normal(datetime.fromisoformat(value))
        except (ValueError, OverflowError) as error:
            raise self.make_error("invalid") from error

    def _normal(self, moment: datetime) -> datetime:
        return moment


class UtcMoment(_Moment):
    """A moment with its zone, YYYY-MM-DDTHH:MM:SSZ (section 2.1); another offset is turned into UTC."""

    default_error_messages: Messages = {
        "invalid": Message("This is not a moment in UTC, written YYYY-MM-DDTHH:MM:SSZ.", "invalid_datetime")
    }
    _FORM = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?(Z|[+-]\d\d:\d\d)", re.ASCII)

    def _normal(self, moment: datetime) -> datetime:
        return moment.astimezone(UTC)


class AnsweredMoment(fields.DateTime):
    """A moment of an answer, YYYY-MM-DDTHH:MM:SSZ (section 2.1)."""

    def _serialize(self, value: Any, attr: str | None, obj: Any, **kwargs: Any) -> str | None:
        return None if value is None else write_moment(value)


class LocalMoment(_Moment):
    """A moment without a zone designator, YYYY-MM-DDTHH:MM:SS (section 2.3, estimated volumes)."""

    default_error_messages: Messages = {
        "invalid": Message(
            "This is not a moment without zone designator, written YYYY-MM-DDTHH:MM:SS.", "invalid_datetime"
        )
    }
    _FORM = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?", re.ASCII)


class Number(Coded, fields.Decimal):
    """A number, kept exactly; also as text (section 2.5: amounts are sometimes numeric strings)."""

    default_error_messages: Messages = {
        "invalid": "This is not a number.",
        "range": Message(
            f"This has more than {MAX_INTEGER_DIGITS} digits before the point, or more than "
            f"{MAX_FRACTION_DIGITS} behind it.",
            "out_of_range",
        ),
    }
    _FORM = re.compile(r"[+-]?\d{1,40}(\.\d{1,40})?", re.ASCII)

    def _deserialize(self, value: Any, attr: str | None, data: Any, **kwargs: Any) -> Decimal:
        numeric_text = isinstance(value, str) and self._FORM.fullmatch(value)
        if numeric_text or (isinstance(value, int) and not isinstance(value, bool)):
            value = Decimal(value)
        if not isinstance(value, Decimal):
            raise self.make_error("invalid")
        if not -_TOO_LARGE < value < _TOO_LARGE:
            raise self.make_error("range")
        try:
            value.quantize(_SMALLEST, context=_EXACT)
        except Inexact as error:
            raise self.make_error("range") from error
        return value or abs(value)  # -0 is 0


class NumberText(Number):
    """A number that travels as text ("string number" in section 2.3), and stays it."""

    def _deserialize(self, value: Any, attr: str | None, data: Any, **kwargs: Any) -> Any:
        number = super()._deserialize(value, attr, data, **kwargs)
        return value if isinstance(value, str) else format(number, "f")


class WholeNumber(Coded, fields.Integer):
    """A whole number that fits 32 bits."""

    default_error_messages: Messages = {
        "invalid": "This is not a whole number.",
        "range": Message("This whole number is too large.", "out_of_range"),
    }

    def _deserialize(self, value: Any, attr: str | None, data: Any, **kwargs: Any) -> int:
        if isinstance(value, str) and re.fullmatch(r"-?\d{1,12}", value, re.ASCII):
            value = int(value)
        if not isinstance(value, int) or isinstance(value, bool):
            raise self.make_error("invalid")
        if abs(value) >= 2**31:
            raise self.make_error("range")
        return value


class PhoneNumber(Text):
    """A telephone number valid in its country, the Netherlands unless it has a prefix; may be empty.

    Whether it is a mobile or a fixed line is not looked at: suppliers mix them.
    """

    default_error_messages: Messages = {
        "number": Message(
            "This is not a telephone number that exists in its country.", "invalid_phone_number"
        )
    }

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(blank=True, max_length=40, **kwargs)

    def _deserialize(self, value: Any, attr: str | None, data: Any, **kwargs: Any) -> str:
        text = super()._deserialize(value, attr, data, **kwargs)
        if text and not is_phone_number(text):
            raise self.make_error("number")
        return text


def is_phone_number(text: str) -> bool:
    """Whether `text` is a telephone number that is valid in its country (default NL)."""
    try:
        return bool(phonenumbers.is_valid_number(phonenumbers.parse(text, "NL")))
    except phonenumbers.NumberParseException:
        return False


class EmailAddress(Text):
    """The form of an e-mail address; nothing is looked up."""

    default_error_messages: Messages = {
        "form": Message("This is not an e-mail address.", "invalid_email_address")
    }
    _form = EmailForm()

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(max_length=254, **kwargs)

    def _deserialize(self, value: Any, attr: str | None, data: Any, **kwargs: Any) -> str:
        text = super()._deserialize(value, attr, data, **kwargs)
        try:
            self._form(text)
        except (ValidationError, UnicodeError) as error:
            raise self.make_error("form") from error
        return text


class Ean(Text):
    """The number of a meter point: digits, at most 18."""

    default_error_messages: Messages = {
        "digits": Message("An EAN has digits only, at most 18.", "invalid_ean")
    }
    #: What an EAN looks like.
    FORM = re.compile(r"[0-9]{1,18}")

    def _deserialize(self, value: Any, attr: str | None, data: Any, **kwargs: Any) -> str:
        text = super()._deserialize(value, attr, data, **kwargs)
        if not self.FORM.fullmatch(text):
            raise self.make_error("digits")
        return text


class DocumentPath(Text):
    """A path below the supplier's document root (section 2.1). It cannot lead out of it."""

    default_error_messages: Messages = {
        "path": Message(
            "This is not a path below the document root: relative, parts that are neither empty nor "
            "'.' nor '..', no backslash, no control character, no scheme, at most 1,024 characters.",
            "invalid_document_path",
        )
    }
    _SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:", re.ASCII)

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(max_length=1024, **kwargs)

    def _deserialize(self, value: Any, attr: str | None, data: Any, **kwargs: Any) -> str:
        text = super()._deserialize(value, attr, data, **kwargs)
        climbs = any(part in ("", ".", "..") for part in text.split("/"))
        if climbs or "\\" in text or not text.isprintable() or self._SCHEME.match(text):
            raise self.make_error("path")
        return text


class FreeObject(Coded, fields.Dict):
    """An object whose keys are the supplier's own (statement_pdf_context)."""

    default_error_messages: Messages = {"invalid": Message("This is not an object.", "not_a_dict")}

    def _deserialize(self, value: Any, attr: str | None, data: Any, **kwargs: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise self.make_error("invalid")
        if _has_nul(value):
            raise ValidationError(Text.default_error_messages["nul"])
        return value


def _has_nul(value: Any) -> bool:
    if isinstance(value, str):
        return "\0" in value
    if isinstance(value, dict):
        return any("\0" in key or _has_nul(item) for key, item in value.items())
    return isinstance(value, list) and any(map(_has_nul, value))


class Values(Coded, fields.List[Any]):
    """A list of single values, all of one kind."""

    default_error_messages: Messages = {"invalid": Message("This is not a list.", "not_a_list")}


class Object(Coded, fields.Nested):
    """One object, described by a schema."""

    default_error_messages: Messages = {"type": Message("This is not an object.", "not_a_dict")}


class Objects(Coded, fields.Nested):
    """A list of objects, each described by a schema; an empty list is an error where `empty` is false."""

    default_error_messages: Messages = {
        "type": Message("This is not a list of objects.", "not_a_list"),
        "empty": "This list may not be empty.",
    }

    def __init__(self, schema: Any, *, empty: bool = True, **kwargs: Any) -> None:
        self.empty = empty
        super().__init__(schema, many=True, **kwargs)

    def _deserialize(
        self, value: Any, attr: str | None, data: Any, partial: Any = None, **kwargs: Any
    ) -> Any:
        if not self.empty and isinstance(value, Collection) and not value:
            raise self.make_error("empty")
        return super()._deserialize(value, attr, data, partial, **kwargs)
