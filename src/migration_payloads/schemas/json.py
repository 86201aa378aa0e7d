"""Reads and writes JSON exactly. Numbers with a fraction are Decimals, never floats."""

import json
import re
from collections.abc import Callable
from decimal import (
    Clamped,
    Context,
    Decimal,
    Inexact,
    InvalidOperation,
    Overflow,
    Rounded,
    Subnormal,
    Underflow,
)
from typing import Any, NoReturn

import msgspec

from migration_payloads.errors import ErrorItem, ParseError
from migration_payloads.schemas.bounds import MAX_DEPTH, MAX_EXPONENT, MAX_NUMBER_DIGITS, MAX_VALUES
from migration_payloads.schemas.messages import shown

encode_json: Callable[[Any], bytes] = msgspec.json.Encoder(decimal_format="number").encode
"""Return a value as JSON text: Decimals as numbers with all their digits, dates in ISO 8601, UTC as Z."""


def finite(value: Any) -> Any:
    """Return a JSON value in which NaN and Infinity, which PostgreSQL stores and JSON lacks, are texts."""
    return _replace_infinite(msgspec.to_builtins(value, builtin_types=(Decimal,)))


def _replace_infinite(value: Any) -> Any:
    match value:
        case dict():
            return {name: _replace_infinite(below) for name, below in value.items()}
        case list() | tuple():
            return [_replace_infinite(below) for below in value]
        case Decimal() if not value.is_finite():
            return str(value)
    return value


def without_marks(text: bytes) -> bytes:
    """Return JSON text without the byte order marks, and the blanks, that programs write around it."""
    text = text.strip()
    while text.startswith(_BYTE_ORDER_MARK):
        text = text[len(_BYTE_ORDER_MARK) :].lstrip()
    return text


def storable_text(text: str | None) -> str | None:
    """Return a text from a client without the characters that PostgreSQL cannot store in JSONB."""
    return text and text.replace("\0", "\N{REPLACEMENT CHARACTER}").encode(errors="replace").decode()


_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
# An escape of half a surrogate pair. Text with such escapes is checked again.
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")

# Reads a number exactly, or raises. A number beyond the bounds is never constructed.
_bounded_decimal = Context(
    prec=MAX_NUMBER_DIGITS,
    Emax=MAX_EXPONENT,
    Emin=-MAX_EXPONENT,
    traps=[Clamped, Inexact, InvalidOperation, Overflow, Rounded, Subnormal, Underflow],
).create_decimal

_NOT_BRACKETS = bytes(code for code in range(256) if code not in b"[]{}")


def parse_json(body: bytes) -> Any:
    """Return the value of the JSON text `body` (section 4: bodies are JSON in UTF-8).

    Byte order marks before it are ignored. Raise ParseError if it is not valid JSON. NaN and Infinity, half
    of a surrogate pair, text that is not UTF-8, and a repeated key in an object are errors. Values beyond
    `schemas.bounds` are errors, too.
    """
    try:
        if body.lstrip().startswith(_BYTE_ORDER_MARK):
            body = without_marks(body)
        _refuse_too_many_values(body)
        text = body.decode()
        if not text or text.isspace():
            raise _parse_error("The body is empty. Send one JSON value.")
        value = _decode(text)
        if not is_surely_shallow(body) and _is_too_deep(value):
            raise _too_deep()
        if _SURROGATE.search(body):
            encode_json(value)  # refuses half a pair, which PostgreSQL cannot store
    except UnicodeDecodeError as error:
        raise _parse_error(_describe_encoding(body, error)) from error
    except UnicodeError as error:
        raise _parse_error("The body has half of a surrogate pair.") from error
    except json.JSONDecodeError as error:
        raise _parse_error(_describe_fault(error)) from error
    except RecursionError as error:
        raise _too_deep() from error
    except (ArithmeticError, ValueError) as error:
        raise _number_too_long() from error
    return value


def _describe_encoding(body: bytes, error: UnicodeDecodeError) -> str:
    if body.startswith(b"\x1f\x8b"):
        return "The body is gzip data. Compress it once, and send Content-Encoding: gzip."
    if body.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "The body is text in UTF-16. Send it in UTF-8."
    return f"The body is not UTF-8 text: byte 0x{body[error.start]:02X} at position {error.start}."


def _describe_fault(error: json.JSONDecodeError) -> str:
    if error.msg == "Extra data":
        return (
            f"Other text follows the JSON value, at line {error.lineno} column {error.colno}. Send one value."
        )
    return f"The body is not valid JSON: {error}."


def has_too_many_values(body: bytes) -> bool:
    """Return True if a JSON text may have more than `MAX_VALUES` values, without reading it.

    Eight megabytes of empty lists would become 170 megabytes of objects.
    """
    return len(body) > MAX_VALUES and sum(map(body.count, (b",", b"[", b"{"))) > MAX_VALUES


def _refuse_too_many_values(body: bytes) -> None:
    if has_too_many_values(body):
        limit = f"at most {MAX_VALUES:,} commas and opening brackets are allowed"
        raise _parse_error(f"The body has too many values: {limit}.", "too_many_items")


#: Objects and lists are levels alike.
_AS_LISTS = bytes.maketrans(b"{}", b"[]")


def is_surely_shallow(body: bytes) -> bool:
    """Return True if the brackets of `body` show that it nests at most `MAX_DEPTH` levels.

    Brackets inside texts may make this False for a shallow body. Each round removes the innermost level,
    which is far faster than visiting each value.
    """
    brackets = body.translate(_AS_LISTS, _NOT_BRACKETS)
    for _ in range(MAX_DEPTH):
        rest = brackets.replace(b"[]", b"")
        if len(rest) == len(brackets):
            break
        brackets = rest
    return not brackets


def _is_too_deep(value: Any) -> bool:
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [
            below
            for container in level
            if isinstance(container, list | dict)
            for below in (container.values() if isinstance(container, dict) else container)
            if isinstance(below, list | dict)
        ]
    return bool(level)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise _parse_error(f"The key {shown(key)} occurs twice in one object.")
            seen.add(key)
    return value


def _constant(name: str) -> NoReturn:
    raise _parse_error(f"{name} is not a JSON value.")


def _too_deep() -> ParseError:
    return _parse_error(f"The body is nested too deeply: at most {MAX_DEPTH} levels are allowed.", "too_deep")


def _number_too_long() -> ParseError:
    limits = f"at most {MAX_NUMBER_DIGITS} digits, and exponents from -{MAX_EXPONENT} to {MAX_EXPONENT}"
    return _parse_error(f"The body has a number that is too long: {limits}, are allowed.", "number_too_long")


def _parse_error(detail: str, code: str = ParseError.code) -> ParseError:
    return ParseError(detail, errors=[ErrorItem(code, detail)])


# Python reads no whole number of more than 4,300 digits. Fields and free objects accept far fewer.
_decode = json.JSONDecoder(
    object_pairs_hook=_object, parse_float=_bounded_decimal, parse_constant=_constant
).decode
