"""Converts tables to accounts by SQL on DuckDB, and proves that no row is lost.

Each object of the payload has `_row`, the row or the list of the rows of which it was made. They are no part
of the book: they lead from a path of an account to a file and a line.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from importlib import resources
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, TYPE_CHECKING, Any, get_args, get_origin, get_type_hints, is_typeddict

import msgspec

from migration_payloads.schemas.base import suggest
from migration_payloads.schemas.json import encode_json
from migration_service_client import models
from migration_service_client.command.errors import CannotRunError
from migration_service_client.command.sources import LINES, Fault, Reading, read_sources

if TYPE_CHECKING:
    import duckdb

_NAMED = {"external_account_number": str, "import_supplier": str}
#: What `--kind` may be, with the members of a line and their types.
KINDS: Mapping[str, Mapping[str, Any]] = {
    "accounts": get_type_hints(models.AccountImport),
    "notes": _NAMED | {"notes": Sequence[models.Note]},
    "transactions": _NAMED | {"transactions": Sequence[models.Transaction]},
    "statements": _NAMED | {"statements": Sequence[models.HistoricalStatement]},
}
_MEMORY = "700MB"
_FETCHED = 500
#: How many accounts a problem names.
_SHOWN = 20


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong with rows, and the accounts that are held back for it. It is a line of `--errors`."""

    file: str
    first_row: int
    last_row: int
    code: str
    detail: str
    accounts: str = ""


@dataclass(slots=True)
class Balance:
    """What became of the rows of a file. It is right if each one that was read is somewhere."""

    file: str
    read: int
    used: int = 0
    held_back: int = 0
    refused: int = 0
    left_out: Counter[str] = field(default_factory=Counter)
    in_utf8: int = 0

    @property
    def is_right(self) -> bool:
        """Return whether the numbers add up."""
        return self.read == self.used + self.held_back + self.refused + self.left_out.total()


@contextmanager
def open_database() -> Iterator["duckdb.DuckDBPyConnection"]:
    """Open an empty database, which spills into a folder of TMPDIR.

    Raise CannotRunError if DuckDB is not installed, and if a statement of the block fails.
    """
    try:
        import duckdb  # noqa: PLC0415 - an extra
    except ImportError:
        install = "pip install 'migration-service-client[convert]'"
        raise CannotRunError(f"This command needs DuckDB. Install it: {install}") from None
    with TemporaryDirectory(prefix="migration-client-") as folder:
        options: dict[str, Any] = {"memory_limit": _MEMORY, "temp_directory": folder, "threads": 1}
        try:
            with closing(duckdb.connect(config=options | {"python_enable_replacements": False})) as found:
                yield found
        except duckdb.Error as error:
            raise CannotRunError(str(error)) from None


class Conversion:
    """A conversion by a SQL file: `load`, then `write`, then `judge`."""

    def __init__(self, connection: "duckdb.DuckDBPyConnection", sql: Path, text: str) -> None:
        self._db = connection
        self._sql = sql
        self._text = text
        self.readings: list[Reading] = []
        self._files: list[Path] = []
        #: The account number of each line.
        self._numbers: list[str] = []
        self.held: set[int] = set()
        ((folder,),) = self.ask("select current_setting('temp_directory')")
        self.folder = Path(folder)

    def load(self) -> None:
        """Read the sources into tables of texts. Raise CannotRunError if one cannot be read."""
        self._db.execute(packaged("macros.sql"))
        self._db.execute("create schema sources")
        for source in read_sources(self._text, self._sql.parent):
            reading = Reading(source, len(self._files))
            self._files += source.files
            if source.is_parquet:
                self._load_parquet(reading)
            else:
                self._load_text(reading)
            self.readings.append(reading)
        names = ", ".join(literal(self._name(it)) for it in range(len(self._files)))
        self._db.execute(f"""
            create macro _file_number(it) as cast(it // {LINES} as int);
            create macro _file(it) as list_extract([{names}], _file_number(it) + 1);
            create macro _line(it) as it % {LINES};
            set search_path = 'main,sources';
            set enable_external_access = false;
            set lock_configuration = true""")

    def _name(self, file: int) -> str:
        path, folder = self._files[file], self._sql.parent
        return str(path.relative_to(folder) if path.is_relative_to(folder) else path)

    def _load_text(self, reading: Reading) -> None:
        source, path = reading.source, self.folder / f"{reading.source.name}.csv"
        with path.open("wb") as out:
            reading.run(out)
        names = [f"c{it}" for it in range(len(reading.columns))]
        columns = ", ".join(["'_row': 'BIGINT'", *(f"'{it}': 'VARCHAR'" for it in names)])
        cells = ", ".join(
            f"nullif(trim({it}, ' ' || chr(9) || chr(160)), '') as {quoted(column)}"
            for it, column in zip(names, reading.columns, strict=True)
        )
        quote = literal(source.quote)
        self._db.execute(f"""
            create table sources.{source.name} as
            select _row, {cells}
            from read_csv({literal(str(path))}, header = false, auto_detect = false, columns = {{{columns}}},
              delim = {literal(source.delimiter)}, quote = {quote}, escape = {quote}, new_line = '\\n',
              strict_mode = true, max_line_size = {max(2_000_000, 2 * reading.longest)})""")
        path.unlink()
        ((found,),) = self.ask(f"select count(*) from sources.{source.name}")
        if found != reading.sound.total():
            says = f"{found} of {reading.sound.total()} rows are in the table of the source {source.name}."
            raise CannotRunError(f"{says} This is a fault of the command.")

    def _load_parquet(self, reading: Reading) -> None:
        name, queries = reading.source.name, []
        for number, path in enumerate(reading.source.files, reading.start):
            file = f"read_parquet({literal(str(path))}, file_row_number = true)"
            cells = "cast(columns(* exclude (file_row_number)) as varchar)"
            queries.append(f"select {number * LINES} + file_row_number + 1 as _row, {cells} from {file}")
            ((found,),) = self.ask(f"select count(*) from {file}")
            reading.read[number] = reading.sound[number] = found
        self._db.execute(f"create table sources.{name} as {' union all by name '.join(queries)}")
        reading.columns = [it[0] for it in self.ask(f"describe sources.{name}")][1:]

    def write(self, kind: str, book: IO[bytes]) -> None:
        """Write all accounts. Raise CannotRunError if the SQL cannot be run, or makes something else."""
        self._make_book()
        described = self._db.sql("from _book")
        found = dict(zip(described.columns, described.types, strict=True))
        if misfit := next(_misfits(found, KINDS[kind], ""), None):
            raise CannotRunError(f"{self._sql}: {misfit}")
        maker = _Maker(found)
        cursor = self._db.execute("select to_json(_book)::varchar, external_account_number from _book")
        path = self.folder / "made.csv"
        with path.open("w") as out:
            while texts := cursor.fetchmany(_FETCHED):
                for text, number in texts:
                    places: list[tuple[str, Any]] = []
                    book.write(encode_json(maker.settle(maker.read(text), "", places) or {}) + b"\n")
                    account = len(self._numbers)
                    self._numbers.append("" if number is None else str(number))
                    out.writelines(
                        [
                            f"{account},{place},{row}\n"
                            for place, made_of in places
                            for row in (made_of if type(made_of) is list else (made_of,))
                            if row is not None
                        ]
                    )
        self._db.execute(f"""
            create temp table _made as
            from read_csv({literal(str(path))}, header = false, auto_detect = false, delim = ',', quote = '',
              escape = '', nullstr = '-',
              columns = {{'account': 'BIGINT', 'path': 'VARCHAR', '_row': 'BIGINT'}})""")

    def _make_book(self) -> None:
        import duckdb  # noqa: PLC0415 - an extra

        line = 1
        try:
            statements = duckdb.extract_statements(self._text)
            for number, statement in enumerate(statements, 1):
                is_query, text = statement.type is duckdb.StatementType.SELECT, statement.query
                if not is_query and statement.type is not duckdb.StatementType.CREATE:
                    raise duckdb.Error(f"{statement.type.name} is not allowed: only `create` and one query.")
                if is_query != (number == len(statements)):
                    raise duckdb.Error(
                        "Expected one query, as the last statement. Others begin with `create`."
                    )
                self._db.execute(f"create temp view _book as {text}" if is_query else text)
                line += text.count("\n")
        except duckdb.Error as error:
            says = str(error)
            if found := re.search(r"^LINE (\d+):", says, re.MULTILINE):
                line += int(found[1]) - 1
                says = f"{says[: found.start()]}{says[found.end() :].lstrip()}"
            raise CannotRunError(f"{self._sql}, line {line}: {says}") from None
        if line == 1 and not statements:
            raise CannotRunError(f"{self._sql} has no query.")

    def judge(self, kind: str) -> tuple[list[Problem], list[Balance]]:
        """Return what is wrong, and what became of the rows of each file. Then `held` is known."""
        faults = [fault for reading in self.readings for fault in reading.faults]
        self._prepare_judging(faults, kind)
        self._db.execute(packaged("judging.sql"))
        self.held = {account for (account,) in self.ask("from _held")}
        balances = self._balances(faults)
        if wrong := ", ".join(it.file for it in balances if not it.is_right):
            raise CannotRunError(f"The rows of {wrong} do not add up: the SQL changes a source.")
        return list(self._problems(faults)), balances

    def _prepare_judging(self, faults: list[Fault], kind: str) -> None:
        keys = (
            (", ".join(f"_key({quoted(it)})" for it in reading.source.key), reading.source.name)
            for reading in self.readings
        )
        tables = " union all ".join(
            f"select _row, [{key}]::varchar[] as keys from sources.{name}" for key, name in keys
        )
        is_left_out = self.ask("from (show all tables) where name = 'left_out' and schema <> 'sources'")
        reason = "coalesce(cast(reason as varchar), error('left_out has a row without a reason.'))"
        left_out = f"select _row, min({reason}) as reason from left_out group by _row"
        nothing = "select 0 as _row, '' as reason limit 0"
        # Keys are compared without the zeros that exports lose.
        self._db.execute(f"""
            create macro _key(it) as ltrim(lower(cast(it as varchar)), '0');
            create temp view _rows as {tables};
            create temp table _left_out as {left_out if is_left_out else nothing};
            set variable is_once = {kind == "accounts"}""")
        lookups = [it for reading in self.readings if reading.source.lookup for it in reading.sound]
        keyless = [it for reading in self.readings if not reading.source.key for it in reading.sound]
        tokens = [(place, token) for place, fault in enumerate(faults, 1) for token in fault.tokens]
        made: dict[str, list[list[Any]]] = {
            "_lookups(file)": [lookups],
            "_keyless(file)": [keyless],
            "_faulty(file)": [[it.file for it in faults if it.tokens]],
            "_tokens(fault, key)": [[it for it, _ in tokens], [it for _, it in tokens]],
            "_accounts(account, number)": [[*range(len(self._numbers))], self._numbers],
        }
        for name, columns in made.items():
            types = ("bigint", "varchar")[: len(columns)]
            values = ", ".join(f"unnest(${place}::{it}[])" for place, it in enumerate(types, 1))
            self._db.execute(f"create temp table {name} as select {values}", columns)

    def _balances(self, faults: list[Fault]) -> list[Balance]:
        balances = [Balance(self._name(it), 0) for it in range(len(self._files))]
        for reading in self.readings:
            for file, number in reading.read.items():
                balances[file].read = number
                balances[file].in_utf8 = reading.in_utf8[file]
                balances[file].used = reading.sound[file] if reading.source.lookup else 0
            for (file, reason), number in reading.left_out.items():
                balances[file].left_out[reason] += number
        for fault in faults:
            balances[fault.file].refused += fault.last - fault.first + 1
        counted = "select _file_number(_row), state, count(*) from _states group by all"
        for file, state, number in self.ask(counted):
            if state.startswith("left out: "):
                balances[file].left_out[state.removeprefix("left out: ")] += number
            else:
                setattr(balances[file], state, getattr(balances[file], state) + number)
        return balances

    def _problems(self, faults: list[Fault]) -> Iterator[Problem]:
        accounts = dict(self.ask("from _held_for"))
        for place, it in enumerate(faults, 1):
            held = _listed(accounts.get(-place, []))
            yield Problem(self._name(it.file), it.first, it.last, it.code, it.detail, held)
        for row, code, number, detail in self.ask("from _problems order by all"):
            held = _listed([number] if number else accounts.get(row, []))
            file, line = (self._sql.name, 1) if row is None else (self._name(row // LINES), row % LINES)
            yield Problem(file, line, line, code, detail, held)
        for (file,) in self.ask("from _unknown"):
            says = "The source has no key=, so the accounts of its rows are unknown, and none is written."
            yield Problem(self._name(file), 1, 1, "key_missing", says)

    def copy_rows(self) -> Path:
        """Return a file with the columns `account`, `path`, `file` and `row` of what is not held back."""
        path = self.folder / "rows.csv"
        self._db.execute(f"copy _lineage to {literal(str(path))} (format csv)")
        return path

    def lines(self, made: IO[bytes]) -> Iterator[bytes]:
        """Yield the lines of what `write` has written that are not held back."""
        return (line for number, line in enumerate(made) if number not in self.held)

    @property
    def written(self) -> int:
        """Return how many accounts are not held back."""
        return len(self._numbers) - len(self.held)

    def ask(self, query: str) -> list[tuple[Any, ...]]:
        """Return the rows of a query."""
        return self._db.execute(query).fetchall()


class _Maker:
    """Makes objects of the JSON of rows, by their types in DuckDB, without what is NULL or empty."""

    def __init__(self, members: Mapping[str, Any]) -> None:
        #: The members of each type that are lists or objects, with their names, and an object without any.
        self._inner: dict[type, tuple[list[tuple[str, str]], Any]] = {}
        kind = self._object(members)
        self.read = msgspec.json.Decoder(kind, float_hook=Decimal).decode

    def _object(self, members: Mapping[str, Any]) -> Any:
        # Names need not be those that Python allows.
        names = {name if name == "_row" else f"m{place}": name for place, name in enumerate(members)}
        kinds = {it: self._type(members[name]) for it, name in names.items()}
        fields = [(it, kind | None, None) for it, kind in kinds.items()]
        try:
            made = msgspec.defstruct("Made", fields, rename=names, omit_defaults=True)
        except ValueError:
            says = "a member has a quote, a backslash or a control character in its name."
            raise CannotRunError(f"The query cannot be written: {says}") from None
        self._inner[made] = ([(it, names[it]) for it, kind in kinds.items() if kind is not Any], made())
        return made

    def _type(self, kind: Any) -> Any:
        if kind.id == "list":
            return list[self._type(kind.children[0][1]) | None]  # type: ignore[misc]
        return self._object(dict(kind.children)) if kind.id == "struct" else Any

    def settle(self, value: Any, path: str, places: list[tuple[str, Any]]) -> Any:
        """Return what is not empty of a list or an object, or None. Add each `_row` to `places`."""
        kind = type(value)
        if kind is list:
            items: list[Any] = []
            for item in value:
                below = item
                if type(item) is list or type(item) in self._inner:
                    below = self.settle(item, f"{path}.{len(items)}", places)
                if below is not None:
                    items.append(below)
            return items or None
        members, empty = self._inner[kind]
        for member, name in members:
            if (item := getattr(value, member)) is not None:
                setattr(value, member, self.settle(item, f"{path}.{name}" if path else name, places))
        row = getattr(value, "_row", None)
        if row is not None:
            value._row = None
        if value == empty:
            return None
        if row is not None:
            places.append((path, row))
        return value


def _misfits(found: Mapping[str, Any], hints: Mapping[str, Any], path: str) -> Iterator[str]:
    """Yield what the types of a query have that a payload has not."""
    for name in _NAMED if not path else ():
        if name not in found:
            yield f"the query has no column {name}."
    for name, kind in found.items():
        place = f"{path}.{name}" if path else name
        if name in hints:
            yield from _misfit(kind, hints[name], place)
        elif name == "_row":
            if not re.fullmatch(r"(BIGINT|INTEGER)(\[\])?|.NULL.", str(kind)):
                yield f"{place} is {kind}, but it is the `_row` of a source, or a list of them."
        else:
            meant = suggest(name, hints)
            yield f"{place} is no field{f': did you mean {meant}?' if meant else '.'}"


def _misfit(kind: Any, hint: Any, place: str) -> Iterator[str]:
    is_list, is_object = get_origin(hint) is Sequence, is_typeddict(hint)
    if kind.id == "list" and is_list:
        yield from _misfit(kind.children[0][1], get_args(hint)[0], place)
    elif kind.id == "struct" and is_object:
        yield from _misfits(dict(kind.children), get_type_hints(hint), place)
    elif is_list or is_object:
        yield f"{place} is {kind}, but a {'list' if is_list else 'struct'} is expected."
    elif kind.id in ("float", "double"):
        yield f"{place} is {kind}, which is not exact. Amounts are texts or DECIMAL."
    elif kind.id.startswith("timestamp"):
        yield f"{place} is {kind}. Write it as text: strftime({place}, '%Y-%m-%dT%H:%M:%S')."
    elif kind.id in ("list", "struct") and hint is str:
        yield f"{place} is {kind}, but one value is expected."


def _listed(numbers: list[str]) -> str:
    return ", ".join(numbers[:_SHOWN]) + (
        f" and {len(numbers) - _SHOWN} more" if len(numbers) > _SHOWN else ""
    )


def packaged(name: str) -> str:
    """Return the SQL of a file that is beside this module."""
    return (resources.files(__package__) / name).read_text(encoding="utf-8")


def quoted(name: str) -> str:
    """Return the name of a column as SQL."""
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """Return a text as SQL."""
    return "'" + text.replace("'", "''") + "'"
