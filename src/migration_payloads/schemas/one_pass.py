"""Reads the text of a plain payload into its data in one pass, compiled from a schema at the start.

Reading JSON and then checking it visits each value twice. Nearly every payload is valid, has only known
members, and writes its values in the usual way. msgspec reads such a text directly into the data. Everything
else is left to `schemas.json` and the schema, which explain what is wrong.

Counting quotation marks shows that nothing was overlooked. The data is written as JSON again, which storing
it needs anyway. An unknown or repeated member, or a number that was sent as text, would leave fewer quotation
marks in the written text. All other differences in their number are counted here. The written text also
reveals the numbers that need more care. Property tests compare the result with that of the schema.
"""

import re
from collections.abc import Callable
from decimal import Decimal
from functools import partial
from typing import Annotated, Any

import msgspec
from marshmallow import Schema, ValidationError
from phonenumbers import PhoneMetadata

from migration_payloads.schemas import compiled, fields
from migration_payloads.schemas.json import encode_json, has_too_many_values, is_surely_shallow

# A written number that may be too long or too small, has an exponent, or is a signed zero. To find a pattern
# that begins with one character, and not with any of three, takes less than half of the time.
_UNUSUAL = rb"(?:-0(?:\.0*)?[,}\]]|-?[0-9][0-9.]{11}|-?[0-9.]+[Ee])"
_UNUSUAL_NUMBERS = [re.compile(begin + _UNUSUAL) for begin in (rb":(?=[-0-9])", rb"\[(?:-?[0-9.]+,)*")]

# Forms that are surely valid. The schema handles other valid forms.
_EMAIL_ADDRESS = (
    r"\A[A-Za-z0-9_+-]+(?:\.[A-Za-z0-9_+-]+)*@"
    r"(?:[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?\.)+[A-Za-z]{2,20}\Z"
)
# A space after a quotation mark, or before one that ends a text.
_OUTER_SPACE = re.compile(rb' (?:(?<=" )|"[\s,:}\]])')
_NUMBER_TEXT = r"\A[+-]?[0-9]{1,12}(?:\.[0-9]{1,10})?\Z"
_DIGITS = re.compile(r"(?:\+31|0)[0-9]+(?:[- ][0-9]+)*", re.ASCII)
_DUTCH: Any = PhoneMetadata.metadata_for_region("NL", None)
_DUTCH_NUMBER = re.compile(
    rf"(?:\+31|0)(?:{_DUTCH.mobile.national_number_pattern}|{_DUTCH.fixed_line.national_number_pattern})"
)


def compile_text(schema: Schema) -> Callable[[bytes], tuple[dict[str, Any], bytes] | None]:
    """Return a function that maps a JSON text to its data and the data as JSON, or to None to use the schema.

    If the function returns data, it is what `schema` loads from the text, and the text has no unknown
    members.
    """
    plain, of_plain_texts = (compiled.object_type(schema, it) for it in (_type_of, _type_of_plain))
    # msgspec reads a type at its first use, and crashes if a second thread uses it meanwhile: use it now.
    for kind in (plain, of_plain_texts):
        msgspec.json.Decoder(kind, dec_hook=compiled.read)
    given = compiled.defaults_of(schema)

    def accept(text: bytes) -> tuple[dict[str, Any], bytes] | None:
        if has_too_many_values(text):
            return None
        words: list[str] = []  # flags, which are no longer text
        try:
            kind = of_plain_texts if _has_plain_texts(text) else plain
            data: dict[str, Any] = msgspec.json.decode(text, type=kind, dec_hook=partial(_read, words))
            written = encode_json(data)
        except (msgspec.MsgspecError, ValidationError, UnicodeError, RecursionError, ArithmeticError):
            return None
        if written != text and (
            written.count(b'"') != text.count(b'"') - 2 * len(words) or (b"\\" in text and b"\\u0022" in text)
        ):
            return None
        if not is_surely_shallow(text) or any(it.search(written) for it in _UNUSUAL_NUMBERS):
            return None
        if absent := {name: default for name, default in given.items() if name not in data}:
            data |= absent
            written = written[:-1] + b"," + encode_json(absent)[1:]
        return data, written

    return accept


def _read(words: list[str], kind: Any, value: Any) -> Any:
    if type(value) is str and kind.__name__ == fields.Flag.__name__:
        words.append(value)
    return kind.read(value)


def _has_plain_texts(text: bytes) -> bool:
    """Return True if texts in a JSON text have only printable ASCII, and none begins or ends with a space."""
    if not text.isascii() or b"\\" in text or b"\x7f" in text:
        return False
    return not _OUTER_SPACE.search(text)


def _type_of_plain(field: Any) -> Any:
    """Return the type of a field in such a text. Patterns would take a third of the time."""
    if type(field) in (fields.Text, fields.NormalIdentifier):
        shortest = 0 if field.blank and type(field) is fields.Text else 1
        return Annotated[str, msgspec.Meta(min_length=shortest, max_length=field.validators[0].max)]
    return _type_of(field, _type_of_plain)


def _type_of(field: Any, below: compiled.TypeOf | None = None) -> Any:
    """Return the type of the plain values of a field."""
    kind = type(field)
    if kind is fields.Number and not field.validators:
        return Decimal
    if kind is fields.NumberText and not field.validators:
        return Annotated[str, msgspec.Meta(pattern=_NUMBER_TEXT)]
    if kind is fields.EmailAddress:
        return Annotated[str, msgspec.Meta(max_length=254, pattern=_EMAIL_ADDRESS)]
    if kind is fields.PhoneNumber:
        return compiled.custom_type(kind.__name__, partial(_read_phone_number, field))
    if kind is fields.FreeObject:
        return compiled.custom_type(kind.__name__, partial(_read_free_object, field))
    return compiled.type_of(field, below or _type_of)


def _read_phone_number(field: fields.PhoneNumber, value: Any) -> Any:
    if isinstance(value, str) and is_surely_phone_number(value):
        return value
    return field.deserialize(value)


def is_surely_phone_number(text: str) -> bool:
    """Return True if `text` is a Dutch telephone number in a usual form. Other forms may be valid, too."""
    if len(text) > 20 or not _DIGITS.fullmatch(text):
        return False
    return _DUTCH_NUMBER.fullmatch(text.replace("-", "").replace(" ", "")) is not None


def _read_free_object(field: fields.FreeObject, value: Any) -> Any:
    if _has_fraction(value):
        raise ValidationError("msgspec has read a number as a float, which is not exact.")
    return field._deserialize(value, None, None)


def _has_fraction(value: Any) -> bool:
    match value:
        case dict():
            return any(map(_has_fraction, value.values()))
        case list():
            return any(map(_has_fraction, value))
    return isinstance(value, float)
