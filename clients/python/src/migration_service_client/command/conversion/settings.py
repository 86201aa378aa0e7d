"""The tables of a mapping's TOML that are not objects of the payload, with their types."""

import re
from collections.abc import Iterable
from decimal import Decimal
from typing import Any, TypeVar

import msgspec

from migration_payloads.schemas.base import suggest
from migration_payloads.schemas.messages import shown

_Words = str | list[str]


class MappingError(Exception):
    """The mapping says something that cannot be done."""


class FormatSettings(msgspec.Struct, omit_defaults=True):
    """How a file writes things: `[format]` for all files, and `[files.NAME]` for one."""

    delimiter: str = ","
    quote: str = '"'
    encoding: str = "utf-8"
    decimal: str = "."
    thousands: str = ""
    dates: _Words = "YYYY-MM-DD"
    empty: _Words = []


class FileSettings(FormatSettings, omit_defaults=True):
    """A file: `[files.NAME]`."""

    path: str = ""
    key: _Words = []
    skip: dict[str, _Words] = {}


class ItemSettings(msgspec.Struct, rename={"from_": "from"}):
    """Where the rows of an object come from: beside its fields in `[account...]`."""

    from_: str = ""
    join: _Words | dict[str, str] = []
    group: _Words = []
    when: dict[str, _Words] = {}


class ValueSettings(msgspec.Struct):
    """What a field is made of, if that is more than the name of a column."""

    column: _Words = []
    between: str = " "
    codes: str | dict[str, Any] = ""
    default: Any = msgspec.UNSET
    value: Any = msgspec.UNSET
    times: Decimal | int | None = None
    decimal: str | None = None
    thousands: str | None = None
    dates: _Words | None = None
    empty: _Words | None = None


_Settings = TypeVar("_Settings", bound=msgspec.Struct)


def read_settings(kind: type[_Settings], table: Any, place: str) -> _Settings:
    """Return a table of a mapping. Raise MappingError if it has an unknown key, or another type of value."""
    if isinstance(table, dict):
        refuse_unknown(table, kind.__struct_encode_fields__, place)
    try:
        return msgspec.convert(table, kind)
    except msgspec.ValidationError as error:
        fault, _, path = str(error).partition(" - at `$")
        at = f"{place}{path.rstrip('`')}"
        raise MappingError(f"{at}: {_plain(fault)}.") from None


def refuse_unknown(found: Iterable[str], known: Iterable[str], place: str, what: str = "a setting") -> None:
    """Raise MappingError if a name is not known, with the one that was probably meant."""
    names = list(known)
    for name in found:
        if name not in names:
            raise MappingError(f"{place}: {shown(name)} is not {what} here{did_you_mean(name, names)}")


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return the end of a sentence about an unknown name: the one that was probably meant, or all."""
    names = list(known)
    if meant := suggest(name, names):
        return f": did you mean {meant}?"
    return f". Expected one of: {', '.join(names)}." if names else "."


def words(found: _Words) -> tuple[str, ...]:
    """Return one text or several as several."""
    return (found,) if isinstance(found, str) else tuple(found)


def _plain(fault: str) -> str:
    """Return a fault that msgspec found in the words of TOML."""
    names = {"str": "text", "object": "a table", "array": "a list", "int": "a number", "decimal": "a number"}
    text = re.sub(r"`([^`]*)`", lambda it: " or ".join(names.get(x, x) for x in it[1].split(" | ")), fault)
    return text[:1].lower() + text[1:]
