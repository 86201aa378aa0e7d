"""The differences between a created account and its staged payload, value by value.

Both sides are JSON values in the form in which `created_sql` writes an account, which is that of a validated
payload.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal, InvalidOperation
from itertools import zip_longest
from typing import Any

import msgspec
from sqlalchemy import Column, DateTime

from migration_service.models.part import Part, path_of, payload_columns

#: Decodes JSON from the database. Numbers with a fraction are Decimals.
read_json = msgspec.json.Decoder(float_hook=Decimal).decode


@dataclass(frozen=True, slots=True)
class FieldDifference:
    """A value that differs. None on the side that lacks it.

    A row on only one side is a single difference, with the whole row as its value.
    """

    path: str
    staged: Any
    created: Any


def compare_fields(staged: Any, created: Any, path: str = "") -> Iterator[FieldDifference]:
    """Yield every difference between the two sides.

    An empty list or object equals an absent one, and numbers and times that payloads write as strings are
    compared by value. Everything else, including the empty string, has to be equal.
    """
    if isinstance(staged, dict | None) and isinstance(created, dict | None) and (staged or created):
        staged, created = staged or {}, created or {}
        for name in {**staged, **created}:
            below = f"{path}.{name}" if path else name
            yield from compare_fields(staged.get(name), created.get(name), below)
    elif isinstance(staged, list | None) and isinstance(created, list | None):
        yield from _compare_lists(staged or [], created or [], path)
    elif not (_is_empty(staged) and _is_empty(created)) and not _is_same(staged, created, path):
        yield FieldDifference(path, staged, created)


def _compare_lists(staged: list[Any], created: list[Any], path: str) -> Iterator[FieldDifference]:
    """Compare lists without their equal first and last items, so that a lost row is a single difference."""
    first = _count_same(staged, created, path)
    last = _count_same(staged[first:][::-1], created[first:][::-1], path)
    middle = staged[first : len(staged) - last], created[first : len(created) - last]
    for index, (one, other) in enumerate(zip_longest(*middle), first):
        below = f"{path}.{index}"
        if one is None or other is None:
            if one is not other:
                yield FieldDifference(below, one, other)
        else:
            yield from compare_fields(one, other, below)


def _count_same(staged: list[Any], created: list[Any], path: str) -> int:
    pairs = enumerate(zip(staged, created, strict=False))
    differing = (index for index, pair in pairs if any(compare_fields(*pair, path)))
    return next(differing, min(len(staged), len(created)))


def _is_empty(value: Any) -> bool:
    return value is None or value in ([], {})


def _is_same(staged: Any, created: Any, path: str) -> bool:
    if isinstance(staged, bool) or isinstance(created, bool):
        return staged is created
    if staged == created:
        return True
    name = path.rpartition(".")[2]
    try:
        if name in _NUMBER_TEXTS:
            return Decimal(str(staged)) == Decimal(str(created))
        return name in _MOMENTS and datetime.fromisoformat(staged) == datetime.fromisoformat(created)
    except (InvalidOperation, TypeError, ValueError):
        return False


def _columns() -> Iterator[Column[Any]]:
    for model in Part.__subclasses__():
        yield from payload_columns(model)


_NUMBER_TEXTS = {path_of(column)[-1] for column in _columns() if column.info.get("as_text")}
_MOMENTS = {path_of(column)[-1] for column in _columns() if isinstance(column.type, DateTime)}
