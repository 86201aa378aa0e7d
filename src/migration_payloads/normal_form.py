"""The normal form of a payload, in which two payloads that say the same are the same.

Whether a payload is unchanged, conflicts with another line, or differs from a created account follows from
it. What a supplier sent is stored as it was sent: the form is only for comparing.

Numbers are compared by value, and so are times. An empty text counts as left out, like an empty list or
object. Identifiers are compared without outer spaces, invisible characters and compatibility forms, and texts
whatever ends their lines. The items of some lists have an identity, by which they are matched. In other lists
the order counts.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import date
from decimal import Context, Decimal, InvalidOperation
from hashlib import sha256
from itertools import zip_longest
from typing import Any, Protocol

import msgspec
from marshmallow import Schema, ValidationError, missing

from migration_payloads.errors import ParseError
from migration_payloads.schemas import fields
from migration_payloads.schemas.account import ACCOUNT_IMPORT, read_account
from migration_payloads.schemas.identifiers import plain_identifier
from migration_payloads.schemas.json import parse_json
from migration_payloads.schemas.ledger import TransactionSchema
from migration_payloads.schemas.statement import HistoricalStatementSchema

#: The members that identify the items of lists, by the name of the list.
_IDENTITIES = {
    "agreements": ("supply_type", "effective_from"),
    "billing_configuration_periods": ("start_date",),
    "energy_meter_point_configuration_periods": ("start_date",),
    "energy_meter_point_grid_operator_effective_periods": ("start_date",),
    "estimated_annual_volumes": ("direction", "start_at"),
    "historical_statement_transactions": ("transaction_id",),
    "meter_points": ("ean", "supply_type"),
    "meters": ("meter_id",),
    "registers": ("register_id",),
    "statements": ("statement_id",),
    "transactions_in_open_settlement_period": ("transaction_id",),
    "user_details": ("namespace",),
}
_encode = msgspec.json.Encoder(decimal_format="number", order="sorted").encode
# Exact for every number that is read, such as a whole number of 4,300 digits that no field reads.
_normalize = Context(prec=5_000).normalize
_ZERO = Decimal(0)
_NO_ITEM: Any = object()

#: Decodes JSON that was checked before. Numbers with a fraction are Decimals.
read_json = msgspec.json.Decoder(float_hook=Decimal).decode


@dataclass(frozen=True, slots=True)
class FieldDifference:
    """A value that differs. None on the side that lacks it.

    An item on only one side is a single difference, with the whole item as its value. The path has the place
    of an item in the first of the two payloads, if it is there.
    """

    path: str
    staged: Any
    created: Any


class _Node(Protocol):
    """How values at one place of a payload are compared."""

    def normal(self, value: Any) -> Any:
        """Return the normal form of a value, or None if it counts as left out."""

    def differences(self, one: Any, other: Any, path: str) -> Iterator[FieldDifference]:
        """Yield every difference between two values."""


class _Leaf:
    """A value without parts that are compared by themselves."""

    def __init__(self, normal: Callable[[Any], Any]) -> None:
        self.normal = normal

    def differences(self, one: Any, other: Any, path: str) -> Iterator[FieldDifference]:
        if _encode(self.normal(one)) != _encode(self.normal(other)):
            yield FieldDifference(path, one, other)


class _Object:
    """An object. Members that no schema names are compared, too."""

    def __init__(self, members: dict[str, _Node]) -> None:
        self._members = members
        self._normal = {name: node.normal for name, node in members.items()}

    def normal(self, value: Any) -> Any:
        if type(value) is not dict:
            return _normal_of_any(value)
        normal, found = self._normal, {}
        for name, below in value.items():
            read = normal.get(name, _UNKNOWN.normal)
            if (result := read(below)) is not None:
                found[name] = result
        return found or None

    def differences(self, one: Any, other: Any, path: str) -> Iterator[FieldDifference]:
        if not isinstance(one or {}, dict) or not isinstance(other or {}, dict):
            yield from _Leaf(self.normal).differences(one, other, path)
            return
        one, other = one or {}, other or {}
        for name in {**one, **other}:
            node = self._members.get(name, _UNKNOWN)
            below = f"{path}.{name}" if path else name
            yield from node.differences(one.get(name), other.get(name), below)


class _List:
    """A list whose order counts."""

    def __init__(self, item: _Node) -> None:
        self._item = item

    def normal(self, value: Any) -> Any:
        return [*map(self._item.normal, value)] or None if type(value) is list else _normal_of_any(value)

    def differences(self, one: Any, other: Any, path: str) -> Iterator[FieldDifference]:
        if isinstance(one or [], list) and isinstance(other or [], list):
            yield from self._compare(one or [], other or [], path)
        else:
            yield from _Leaf(self.normal).differences(one, other, path)

    def _compare(self, one: list[Any], other: list[Any], path: str) -> Iterator[FieldDifference]:
        """Compare lists without their equal first and last items, so that a lost one is one difference."""
        written = [[_encode(self._item.normal(item)) for item in items] for items in (one, other)]
        first = _count_same(*written)
        last = _count_same(*(items[first:][::-1] for items in written))
        middle = one[first : len(one) - last], other[first : len(other) - last]
        for index, (left, right) in enumerate(zip_longest(*middle, fillvalue=_NO_ITEM), first):
            if left is _NO_ITEM:
                yield FieldDifference(f"{path}.{index}", None, right)
            elif right is _NO_ITEM:
                yield FieldDifference(f"{path}.{index}", left, None)
            else:
                yield from self._item.differences(left, right, f"{path}.{index}")


class _IdentifiedList(_List):
    """A list whose items are matched by what `identify` returns for their normal form."""

    def __init__(self, item: _Node, identify: Callable[[Any], str]) -> None:
        super().__init__(item)
        self._identify = identify

    def normal(self, value: Any) -> Any:
        items = super().normal(value)
        return sorted(items, key=self._identify) if type(value) is list and len(value) > 1 else items

    def _compare(self, one: list[Any], other: list[Any], path: str) -> Iterator[FieldDifference]:
        own, theirs = self._numbered(one), self._numbered(other)
        pairs = [(place, theirs[key]) for key, place in own.items() if key in theirs]
        # Two that are left may be the same item with another identity.
        left = [place for key, place in own.items() if key not in theirs]
        lacking = [place for key, place in theirs.items() if key not in own]
        pairs += zip(left, lacking, strict=False)
        for place, their_place in sorted(pairs):
            yield from self._item.differences(one[place], other[their_place], f"{path}.{place}")
        for place in left[len(lacking) :]:
            yield FieldDifference(f"{path}.{place}", one[place], None)
        for place in lacking[len(left) :]:
            yield FieldDifference(f"{path}.{place}", None, other[place])

    def _numbered(self, items: list[Any]) -> dict[tuple[str, int], int]:
        """Return the place of each item by its identity. Several with one identity are counted."""
        places: dict[tuple[str, int], int] = {}
        seen = Counter[str]()
        for place, item in enumerate(items):
            identity = self._identify(self._item.normal(item))
            seen[identity] += 1
            places[identity, seen[identity]] = place
        return places


def _count_same(one: Sequence[bytes], other: Sequence[bytes]) -> int:
    pairs = enumerate(zip(one, other, strict=False))
    return next((index for index, pair in pairs if pair[0] != pair[1]), min(len(one), len(other)))


class _Any:
    """A value within one of which no schema knows anything.

    Everything counts but the order of members and how numbers are written: null may mean something there.
    """

    def normal(self, value: Any) -> Any:
        return _normal_of_any(value)

    def differences(self, one: Any, other: Any, path: str) -> Iterator[FieldDifference]:
        if _encode(_normal_of_any(one)) == _encode(_normal_of_any(other)):
            return
        if (one or other) and isinstance(one or {}, dict) and isinstance(other or {}, dict):
            one, other = one or {}, other or {}
            for name in {**one, **other}:
                below = f"{path}.{name}"
                if (name in one) != (name in other) and one.get(name) is other.get(name):
                    yield FieldDifference(below, None, None)
                yield from _ANY.differences(one.get(name), other.get(name), below)
        elif (one or other) and isinstance(one or [], list) and isinstance(other or [], list):
            yield from _List(_ANY).differences(one, other, path)
        else:
            yield FieldDifference(path, one, other)


class _Unknown(_Any):
    """A value of which no schema knows anything. An empty list or object counts as left out."""

    def normal(self, value: Any) -> Any:
        return None if value in ([], {}) else _normal_of_any(value)

    def differences(self, one: Any, other: Any, path: str) -> Iterator[FieldDifference]:
        if _encode(self.normal(one)) != _encode(self.normal(other)):
            yield from super().differences(one, other, path)


def _normal_of_any(value: Any) -> Any:
    match value:
        case dict():
            return {name: _normal_of_any(it) for name, it in value.items()}
        case list():
            return [*map(_normal_of_any, value)]
        case bool():
            return value
        case int() | Decimal():
            return _normal_number(Decimal(value))
    return value


_ANY, _UNKNOWN = _Any(), _Unknown()


def _normal_number(number: Decimal) -> Decimal:
    return _normalize(number) if number else _ZERO


def _text(value: Any) -> Any:
    if type(value) is not str:
        return _normal_of_any(value)
    if "\r" in value:
        value = value.replace("\r\n", "\n").replace("\r", "\n")
    return value or None


def _identifier(value: Any) -> Any:
    return (plain_identifier(value) or None) if type(value) is str else _normal_of_any(value)


def _path(value: Any) -> Any:
    return (value.removeprefix("/") or None) if type(value) is str else _normal_of_any(value)


def _number(field: Any) -> Callable[[Any], Any]:
    def read(value: Any) -> Any:
        if type(value) is Decimal:
            return _normalize(value) if value else _ZERO
        value = _load(field, value)
        if isinstance(field, fields.NumberText) and isinstance(value, str):
            with suppress(InvalidOperation):
                value = Decimal(value)
        return _normal_of_any(value)

    return read


def _flag(field: Any) -> Callable[[Any], Any]:
    """Return the normal form of a flag. One that is left out is what its field takes it for."""
    left_out = None if field.load_default is missing else field.load_default

    def read(value: Any) -> Any:
        if value is None:
            return left_out
        return value if type(value) is bool else _normal_of_any(_load(field, value))

    return read


def _time(field: Any) -> Callable[[Any], Any]:
    """Return the normal form of days and moments. One that was loaded is written by the encoder."""

    def read(value: Any) -> Any:
        return value if isinstance(value, date) else _load(field, value) if value else None

    return read


def _load(field: Any, value: Any) -> Any:
    """Return what a field loads from a value as it was sent, or the value if the field refuses it."""
    try:
        return field.deserialize(value)
    except ValidationError:
        return _normal_of_any(value)


#: How the values of each kind of field are compared, by the first class that a field is of.
_KINDS: dict[Any, Callable[[Any], _Node]] = {
    fields.Objects: lambda field: _list_of(_node_of_object(field.schema), _IDENTITIES.get(field.name)),
    fields.Object: lambda field: _node_of_object(field.schema),
    fields.Values: lambda field: (
        _IdentifiedList(_Leaf(_identifier), str)
        if isinstance(field.inner, fields.Ean)
        else _List(_node_of(field.inner))
    ),
    fields.FreeObject: lambda _field: _UNKNOWN,
    fields.Number: lambda field: _Leaf(_number(field)),
    fields.WholeNumber: lambda field: _Leaf(_number(field)),
    fields.Flag: lambda field: _Leaf(_flag(field)),
    fields.LocalMoment: lambda field: _Leaf(_time(field)),
    fields.Day: lambda field: _Leaf(_time(field)),
    fields.Identifier: lambda _field: _Leaf(_identifier),
    fields.Ean: lambda _field: _Leaf(_identifier),
    fields.DocumentPath: lambda _field: _Leaf(_path),
    object: lambda _field: _Leaf(_text),
}


def _list_of(item: _Node, names: tuple[str, ...] | None) -> _Node:
    return _IdentifiedList(item, _identify_by(names)) if names else _List(item)


def _node_of(field: Any) -> _Node:
    return next(make(field) for kind, make in _KINDS.items() if isinstance(field, kind))


def _node_of_object(schema: Schema) -> _Object:
    return _Object({name: _node_of(field) for name, field in schema.load_fields.items()})


def _identify_by(names: tuple[str, ...]) -> Callable[[Any], str]:
    def identify(item: Any) -> str:
        members = item if isinstance(item, dict) else {}
        return "\n".join(str(members.get(name)) for name in names)

    return identify


class NormalForm:
    """The normal form of the payloads of a schema, as they are sent or as the schema loads them."""

    def __init__(self, schema: Schema) -> None:
        self._node = _node_of_object(schema)

    def digest(self, data: Any) -> bytes:
        """Return a hash that is the same for data that says the same."""
        return sha256(_encode(self._node.normal(data))).digest()

    def find_differences(self, one: Any, other: Any) -> Iterator[FieldDifference]:
        """Yield every difference between two payloads, as they were sent."""
        return self._node.differences(one, other, "")


#: The normal forms of account payloads, and of the items of added data that can differ.
ACCOUNT = NormalForm(ACCOUNT_IMPORT)
TRANSACTION, STATEMENT = NormalForm(TransactionSchema()), NormalForm(HistoricalStatementSchema())


def digest_line(text: bytes) -> bytes:
    """Return a hash of a line with an account that is the same for lines that say the same.

    What is dropped from a payload does not count. A line with errors counts as it was sent.
    """
    try:
        loaded = read_account(text)
        return ACCOUNT.digest(parse_json(text) if loaded.errors else loaded.data)
    except ParseError:
        return sha256(text).digest()
