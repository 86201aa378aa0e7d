"""What the values of a book are like, path by path, without the values of persons, by SQL on DuckDB.

Each list of the payload is a table, and each member a column of JSON. Tallies of a path with many different
values are those of a sample of them.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from marshmallow import Schema
from marshmallow.fields import Field

from migration_payloads.errors import ParseError
from migration_payloads.files.ndjson import Line
from migration_payloads.schemas import fields
from migration_payloads.schemas.account import ACCOUNT_IMPORT
from migration_payloads.schemas.base import field_below
from migration_payloads.schemas.json import encode_json, parse_json, without_marks
from migration_payloads.schemas.privacy import is_nobodys
from migration_service_client.command.conversion import literal, open_database, packaged, quoted

if TYPE_CHECKING:
    import duckdb

#: The points of a distribution: the least value, the most, and those in between in equal steps.
POINTS = 101
#: More paths than the schema has, but not so many that members with names like numbers fill the memory.
_MOST_PATHS = 300
#: Different codes that are kept, and characters of a text.
_CODES, _LONGEST = 500, 60
#: Different values of which all is tallied. Of more, it is a sample.
_TALLIED = 20_000
#: The files, and the mark of names that have another one of other case beside them: DuckDB ignores case.
_BOOK, _BOOK_APART, _TWIN = "book.ndjson", "apart.ndjson", "\x1f"
_QUANTILES = f"quantile_disc(x, {[it / (POINTS - 1) for it in range(POINTS)]})"
_TALLIES = ("kinds", "lengths", "shapes", "decimals", "last_digits_of_cents", "days", "months", "hours")
_COUNTS = ("empty", "damaged", "lettered", "upper_case", "rounded", "invalid", "swapped", "negative")

_Field = Field[Any] | Schema | None


def profile_book(lines: Iterable[Line]) -> dict[str, Any]:
    """Return the profile of a book: the numbers of its lines, and each path with what is known of it."""
    with open_database() as database:
        ((folder,),) = database.execute("select current_setting('temp_directory')").fetchall()
        path, numbers, count, longest = Path(folder) / _BOOK, list[int](), 0, 0
        with path.open("wb") as file:
            for line in lines:
                count += 1
                if line.text is not None and _is_whole(line.text):
                    text = without_marks(line.text)
                    file.write(text.replace(b"\r", b" ").replace(b"\n", b" ") + b"\n")
                    numbers.append(line.number)
                    longest = max(longest, len(text))
        paths = dict(_Profile(database, path, numbers, longest).paths()) if numbers else {}
    return {"migration_profile": 2, "lines": count, "unreadable": count - len(numbers), "paths": paths}


def _is_whole(text: bytes) -> bool:
    try:
        return isinstance(parse_json(text), dict)
    except ParseError:
        return False


@dataclass(slots=True)
class _Profile:
    """A book in a database, of which each level becomes a table in turn."""

    db: "duckdb.DuckDBPyConnection"
    path: Path
    numbers: list[int]
    longest: int
    tables: int = 0

    def paths(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield each path with what is known of it."""
        read = f"{literal(str(self.path))}, maximum_object_size = {max(2 * self.longest, 1_000_000)}"
        # DuckDB does not tell an empty object from a value of several types.
        objects = r"regexp_replace(json, '\{\s*\}', 'null', 'g')"
        structures = (
            f"select distinct json_structure({objects})::varchar from read_ndjson_objects({read}) order by 1"
        )
        structure: Any = {}
        for (text,) in self.db.execute(structures).fetchall():
            structure = _merge(structure, msgspec.json.decode(text))
        if not structure:
            return
        if (apart := _apart(structure, structure)) != structure:
            self._rewrite(structure)
            structure, read = apart, read.replace(_BOOK, _BOOK_APART)
        columns = ", ".join(
            f"{literal(name)}: {literal(_type(it, field_below(ACCOUNT_IMPORT, name.rstrip(_TWIN))))}"
            for name, it in structure.items()
        )
        self.db.execute(packaged("profile.sql"))
        self.db.execute("create temp table numbers as select unnest($1::bigint[]) as line", [self.numbers])
        self.db.execute(
            "create temp table level0 as select numbers.line as _line, book.* from read_json("
            f"{read}, format = 'newline_delimited', columns = {{{columns}}}) book positional join numbers"
        )
        yield from self._members("level0", structure, "", ACCOUNT_IMPORT)

    def _rewrite(self, structure: Any) -> None:
        """Write the book once more, with names that DuckDB tells apart."""
        with self.path.open("rb") as book, self.path.with_name(_BOOK_APART).open("wb") as file:
            for line in book:
                file.write(encode_json(_apart(parse_json(line), structure)) + b"\n")

    def _members(
        self, table: str, structure: Any, prefix: str, field: _Field
    ) -> Iterator[tuple[str, dict[str, Any]]]:
        names = list(structure)[:_MOST_PATHS]
        parents, weight = self._weights(table, ["_line"])[0]
        weights = self._weights(table, [quoted(it) for it in names])
        for name, (number, weight_of_values) in zip(names, weights, strict=True):
            below, column = structure[name], quoted(name)
            inner = field_below(field, name.rstrip(_TWIN))
            known = {
                "parents": parents,
                "weight_of_parents": weight,
                "weight": weight_of_values,
                "values": number,
            }
            path = f"{prefix}{name.rstrip(_TWIN)}"
            if isinstance(below, list):
                sizes = (
                    f"select least(len({column}), {_LONGEST}), count(*) from {table} "
                    f"where {column} is not null group by 1 order by 1"
                )
                lengths = {str(size): times for size, times in self.db.execute(sizes).fetchall()}
                yield path, known | {"kinds": {"list": number}, "lengths": lengths}
                yield from self._items(table, column, below[0], path, inner)
            elif isinstance(below, dict) and below:
                yield path, known | {"kinds": {"object": number}}
                if inner is not None and not isinstance(inner, fields.FreeObject):
                    made = self._table(
                        f"select _line, unnest({column}) from {table} where {column} is not null"
                    )
                    yield from self._members(made, below, f"{path}.", inner)
            else:
                yield path, known | self._values(table, column, inner)

    def _items(
        self, table: str, column: str, below: Any, path: str, field: _Field
    ) -> Iterator[tuple[str, dict[str, Any]]]:
        item = "unnest(item)" if isinstance(below, dict) else "item"
        unnested = f"select _line, unnest({column}) as item from {table}"
        made = self._table(f"select _line, {item} from ({unnested}) where item is not null")
        if isinstance(below, dict):
            yield from self._members(made, below, f"{path}.*.", field)
            return
        ((number, weight),) = self._weights(made, ["item"])
        known = {"parents": number, "weight_of_parents": weight, "weight": weight, "values": number}
        inner = field.inner if isinstance(field, fields.Values) else field
        if not isinstance(below, list):
            yield f"{path}.*", known | self._values(made, "item", inner)

    def _table(self, query: str) -> str:
        self.tables += 1
        self.db.execute(f"create temp table level{self.tables} as {query}")
        return f"level{self.tables}"

    def _weights(self, table: str, columns: list[str]) -> list[tuple[int, float]]:
        """Return how many values columns have, and how many are independent (Kish)."""
        counted = ", ".join(f"count({it}) as n{at}" for at, it in enumerate(columns))
        sums = ", ".join(
            f"coalesce(sum(n{at}), 0)::bigint, coalesce(sum(n{at} * n{at}), 0)::double"
            for at in range(len(columns))
        )
        query = f"select {sums} from (select {counted} from {table} group by _line)"
        found = self.db.execute(query).fetchall()[0]
        pairs = zip(found[::2], found[1::2], strict=True)
        return [(number, round(number**2 / squares, 1) if squares else 0.0) for number, squares in pairs]

    def _values(self, table: str, column: str, field: _Field) -> dict[str, Any]:
        """Return what is known of a column of JSON, without what is 0 or empty."""
        is_number, is_date = (
            isinstance(field, fields.Number | fields.WholeNumber),
            isinstance(field, fields.Day | fields.LocalMoment),
        )
        is_code = isinstance(field, fields.Choice | fields.Code | fields.Flag | fields.Identifier)
        is_personal = bool(getattr(field, "personal", True))
        is_shown = is_code and not is_personal and not getattr(field, "identifying", True)
        is_identifier = isinstance(field, fields.Identifier | fields.Ean) and not is_shown
        kind = "number" if is_number else "date" if is_date else "text"
        self.db.execute(f"create or replace temp view seen as select _line, {column} as value from {table}")
        is_ean = isinstance(field, fields.Ean)
        counts = f"{kind == 'number'}, {kind == 'date'}, {is_ean}, {is_personal}, {_TALLIED}"
        self.db.execute(f"create or replace temp table different as from _different({counts})")
        different, most, repeated, numbers, *counted = self.db.execute("from _counted").fetchall()[0]
        tallies: dict[str, dict[str, int]] = {it: {} for it in _TALLIES}
        for name, value, times in self.db.execute("from _tallied order by all").fetchall():
            tallies[name][value] = times
        if is_shown:
            del tallies["shapes"]
            tallies["codes"] = self._codes(field)
        known: dict[str, Any] = {**tallies, "most_frequent": most, **dict(zip(_COUNTS, counted, strict=True))}
        if is_identifier:
            known |= {"distinct": different, "repeated": round(repeated / different, 4) if different else 0}
        if is_number or is_date:
            ((points,),) = self.db.execute(
                f"select {_QUANTILES} from (select x, unnest(range(n)) from different)"
            ).fetchall()
            known |= {"sampled": numbers, "quantiles": points, "is_date": is_date and points is not None}
            if points and not is_personal:
                known["outliers"] = self._outliers(points)
        return {name: value for name, value in known.items() if value not in (0, {}, [], False, None)}

    def _codes(self, field: Any) -> dict[str, int]:
        """Return the most frequent codes, and the shapes of texts that cannot be codes."""
        codes: Counter[str] = Counter()
        query = "select s, json, shape, n from different where s <> '' order by n desc, s"
        for place, (text, value, shape, times) in enumerate(self.db.execute(query).fetchall()):
            shown = text if is_nobodys(field, msgspec.json.decode(value)) else shape
            codes[shown[:_LONGEST] if place < _CODES else ""] += times
        return dict(codes)

    def _outliers(self, points: list[float]) -> list[tuple[float, int]]:
        """Return extremes with lines that are more than three quartile distances outside the quartiles."""
        low, high = points[POINTS // 4], points[3 * POINTS // 4]
        room = 3 * (high - low)
        if not room:
            return []
        far = "select x, min(line) from different where x {} $1 group by x order by abs(x - $1) desc limit 3"
        # A result is lost when its connection executes the next statement.
        found = self.db.execute(far.format("<"), [low - room]).fetchall()
        found += self.db.execute(far.format(">"), [high + room]).fetchall()
        return sorted(found)


def _apart(value: Any, structure: Any) -> Any:
    """Return a value whose members have a mark if their names in the structure differ in case only."""
    if isinstance(value, list) and isinstance(structure, list):
        return [_apart(it, structure[0]) for it in value]
    if not (isinstance(value, dict) and isinstance(structure, dict)):
        return value
    times, marked = Counter[str](), dict[str, str]()
    for name in structure:
        marked[name] = name + _TWIN * times[name.lower()]
        times[name.lower()] += 1
    return {marked[name]: _apart(it, structure[name]) for name, it in value.items()}


def _merge(one: Any, other: Any) -> Any:
    """Return a structure that has what two have: members of objects, items of lists, or any value."""
    if one == "NULL" or other == "NULL":
        return other if one == "NULL" else one
    if isinstance(one, dict) and isinstance(other, dict):
        return one | {name: _merge(one.get(name, "NULL"), it) for name, it in other.items()}
    if isinstance(one, list) and isinstance(other, list):
        return [_merge(one[0] if one else "NULL", other[0] if other else "NULL")]
    return "JSON"


def _type(structure: Any, field: _Field) -> str:
    """Return the type of DuckDB for what `json_group_structure` has found, in which each value is JSON."""
    if isinstance(structure, dict) and structure and not isinstance(field, fields.FreeObject):
        members = (
            f"{quoted(name)} {_type(it, field_below(field, name.rstrip(_TWIN)))}"
            for name, it in structure.items()
        )
        return f"STRUCT({', '.join(members)})"
    return f"{_type(structure[0], field)}[]" if isinstance(structure, list) else "JSON"
