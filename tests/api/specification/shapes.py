"""Comparing an answer with the shape that an example documents.

A shape is a JSON value. The words of `_WORDS` in it stand for any value of a type. Everything else has to be
in the answer as it is: objects with exactly these members, lists with exactly these items.
"""

import re
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_MOMENT = re.compile(r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}Z")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | Decimal) and not isinstance(value, bool)


_WORDS: dict[str, Callable[[Any], bool]] = {
    "(text)": lambda value: isinstance(value, str) and value != "",
    "(number)": _is_number,
    "(date)": lambda value: isinstance(value, str) and _DATE.fullmatch(value) is not None,
    "(datetime)": lambda value: isinstance(value, str) and _MOMENT.fullmatch(value) is not None,
    "(service account number)": lambda value: (
        isinstance(value, str) and re.fullmatch(r"A-[0-9A-Z]{8}", value) is not None
    ),
}


def differences(value: Any, shape: Any, path: str = "the answer") -> Iterator[str]:
    """Yield a sentence for each place at which `value` does not have the shape."""
    if isinstance(shape, dict) and isinstance(value, dict):
        yield from _in_members(value, shape, path)
    elif isinstance(shape, list) and isinstance(value, list):
        if len(value) != len(shape):
            yield f"{path}: has {len(value)} items instead of {len(shape)}"
        for index, (item, expected) in enumerate(zip(value, shape, strict=False)):
            yield from differences(item, expected, f"{path}.{index}")
    elif isinstance(shape, str) and shape in _WORDS:
        if not _WORDS[shape](value):
            yield f"{path}: {value!r} instead of {shape}"
    elif value != shape or not (type(value) is type(shape) or (_is_number(value) and _is_number(shape))):
        yield f"{path}: {value!r} instead of {shape!r}"


def _in_members(value: dict[str, Any], shape: dict[str, Any], path: str) -> Iterator[str]:
    for name in sorted({*value, *shape}):
        if name not in shape:
            yield f"{path}.{name}: is not documented"
        elif name not in value:
            yield f"{path}.{name}: is missing"
        else:
            yield from differences(value[name], shape[name], f"{path}.{name}")
