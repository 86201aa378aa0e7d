"""What a mapping says: the files, and for each object of a payload the columns that it is made of."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

#: The names of columns, or the cells of a row.
Texts = tuple[str, ...]
#: What a field without a value reads as.
ABSENT: Any = object()


@dataclass(frozen=True, slots=True)
class Format:
    """How a file writes things."""

    delimiter: str = ","
    quote: str = '"'
    encoding: str = "utf-8"
    decimal: str = "."
    thousands: str = ""
    dates: Texts = ("YYYY-MM-DD",)
    #: Texts that stand for nothing, beside the empty one.
    empty: frozenset[str] = frozenset()


@dataclass(slots=True)
class File:
    """A file of rows."""

    name: str
    path: Path
    format: Format
    #: The columns that identify a row.
    key: Texts = ()
    #: Rows with these cells are left out on purpose.
    skip: Mapping[str, frozenset[str]] = field(default_factory=dict)
    #: The columns that the mapping uses, each with its position in a stored row.
    columns: dict[str, int] = field(default_factory=dict)
    #: The sets of columns by which rows are looked up.
    lookups: list[Texts] = field(default_factory=list)

    def position(self, column: str) -> int:
        """Return the position of a column in a stored row."""
        return self.columns.setdefault(column, len(self.columns))

    def lookup(self, columns: Texts) -> int:
        """Return the number of a set of columns by which rows are looked up."""
        if columns not in self.lookups:
            self.lookups.append(columns)
        return self.lookups.index(columns)


class Value(Protocol):
    """What a field is made of."""

    @property
    def columns(self) -> Texts:
        """Return the columns it reads."""

    def read(self, cells: Sequence[str]) -> Any:
        """Return the value for a row, or ABSENT. Raise CellError if there is none."""


@dataclass(frozen=True, slots=True)
class Constant:
    """A value that is the same for all rows."""

    value: Any
    columns: Texts = ()

    def read(self, _cells: Sequence[str]) -> Any:
        """Return the value."""
        return self.value


@dataclass(frozen=True, slots=True)
class Cells:
    """The value of one column, or of several with `between` between them."""

    columns: Texts
    positions: tuple[int, ...]
    convert: Callable[[str], Any]
    empty: frozenset[str]
    between: str = " "
    default: Any = ABSENT

    def read(self, cells: Sequence[str]) -> Any:
        """Return the value, or the default if all cells are empty."""
        if len(self.positions) == 1:
            text = cells[self.positions[0]]
            return self.convert(text) if text and text not in self.empty else self.default
        found = [cells[it] for it in self.positions]
        text = self.between.join(it for it in found if it and it not in self.empty)
        return self.convert(text) if text else self.default


@dataclass(frozen=True, slots=True)
class Several:
    """A list with a value for each of its parts that has one."""

    parts: tuple[Value, ...]

    @property
    def columns(self) -> Texts:
        """Return the columns of all parts."""
        return tuple(column for part in self.parts for column in part.columns)

    def read(self, cells: Sequence[str]) -> Any:
        """Return the list, or ABSENT if it is empty."""
        return [it for it in (part.read(cells) for part in self.parts) if it is not ABSENT] or ABSENT


@dataclass(frozen=True, slots=True)
class Item:
    """An object of the payload, or the objects of a list: one for each row, or each group of rows."""

    #: The path in the mapping.
    place: str
    file: File
    values: Mapping[str, Value]
    #: The objects within this one. A list may be made in several ways.
    below: Sequence[tuple[str, "Item"]] = ()
    #: Whether it is a list.
    many: bool = True
    #: Whether its rows come from a file of its own. Otherwise they are those of the object around it.
    joined: bool = False
    #: The number of the lookup in its file, and the positions in the rows around it.
    lookup: int = 0
    parent_positions: tuple[int, ...] = ()
    #: The positions whose cells the rows of a group have in common. Without any, a row is a group.
    group: tuple[int, ...] = ()
    #: Positions, and what their cells may be.
    when: Sequence[tuple[int, frozenset[str]]] = ()
    #: Whether it is a list of values rather than of objects. `values` then has one, with an empty name.
    plain: bool = False


@dataclass(frozen=True, slots=True)
class Plan:
    """A whole mapping."""

    account: Item
    files: Sequence[File]
