"""Answers: from JSON to the classes of `models`, and from a stream to lines."""

import csv
import dataclasses
import types
from collections.abc import Callable, Iterator, Mapping
from datetime import date, datetime
from decimal import Decimal
from functools import cache
from typing import Any, Union, get_args, get_origin, get_type_hints

import msgspec

from migration_service_client.errors import ServiceUnreachable, UnexpectedAnswer
from migration_service_client.requests import Lines

_JSON = msgspec.json.Decoder(float_hook=Decimal)

#: The last lines of streams that the service could not go on with. None of them is JSON, CSV or a whole page.
_BROKEN_OFF = (
    b'{"code": "service_unavailable", "detail": "This broke off. Ask again."',
    b'"service_unavailable: This broke off. Ask again.',
    b"<p><strong>The page broke off. Load it again.</strong>",
)

_Convert = Callable[[Any], Any] | None


def parse(text: bytes | str) -> Any:
    """Return parsed JSON with exact amounts. Raise UnexpectedAnswer if it is none."""
    try:
        return _JSON.decode(text)
    except ValueError as error:
        raise UnexpectedAnswer("The answer is not JSON.") from error


def decode(kind: Any, value: Any) -> Any:
    """Return the answer as an instance of this type. Members that the type does not know are left out.

    Raise UnexpectedAnswer if something is missing.
    """
    convert = _converter(kind)
    try:
        return convert(value) if convert else value
    except (TypeError, ValueError, AttributeError, ArithmeticError) as error:
        name = getattr(kind, "__name__", str(kind))
        raise UnexpectedAnswer(f"The answer does not have the form of {name}.") from error


@cache
def _converter(kind: Any) -> _Convert:
    """Return what makes this type from parsed JSON, or None for what is one already."""
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        return _dataclass_converter(kind)
    simple: dict[Any, _Convert] = {
        datetime: datetime.fromisoformat,
        date: date.fromisoformat,
        Decimal: Decimal,
    }
    if kind in simple:
        return simple[kind]
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (types.UnionType, Union):
        kinds = [it for it in arguments if it is not type(None)]
        inner = _converter(kinds[0]) if len(kinds) == 1 else None
        return None if inner is None else lambda value: None if value is None else inner(value)
    if origin is tuple:
        item = _converter(arguments[0])
        return tuple if item is None else lambda value: tuple(item(it) for it in value)
    return None


def _dataclass_converter(kind: type) -> _Convert:
    hints = get_type_hints(kind)
    names = frozenset(hints)
    converters = {name: it for name, hint in hints.items() if (it := _converter(hint)) is not None}

    def convert(value: Mapping[str, Any]) -> Any:
        found = {name: it for name, it in value.items() if name in names}
        for name, converter in converters.items():
            if name in found:
                found[name] = converter(found[name])
        return kind(**found)

    return convert


class LineReader:
    """Makes items of the chunks of a stream: `feed` each chunk, then `end`.

    Both raise ServiceUnreachable if the service could not go on.
    """

    def __init__(self, request: Lines[Any]) -> None:
        self._kind, self._operation = request.answer, request.operation
        self._is_csv = request.accept == "text/csv"
        # A cell or a page may have empty lines.
        self._is_raw = self._kind is bytes and request.accept != "application/x-ndjson"
        self._names: list[str] | None = None
        self._rest = b""

    def feed(self, chunk: bytes) -> Iterator[Any]:
        """Yield the items whose lines end in this chunk."""
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        for line in lines:
            yield from self._item(line)

    def end(self) -> Iterator[Any]:
        """Yield the item of a last line that has no end."""
        if self._rest:
            yield from self._item(self._rest)

    def _item(self, line: bytes) -> Iterator[Any]:
        if line in _BROKEN_OFF:
            raise ServiceUnreachable(f"{self._operation} broke off: the service could not go on.")
        if self._is_raw:
            yield line
        elif not line.strip():
            return
        elif self._is_csv:
            [row] = csv.reader([line.decode("utf-8-sig").rstrip("\r")])
            if self._names is None:
                self._names = row
            else:
                yield dict(zip(self._names, row, strict=True))
        else:
            yield line if self._kind is bytes else decode(self._kind, parse(line))
