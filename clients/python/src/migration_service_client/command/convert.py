"""`migration-client convert`."""

import csv
import io
import shutil
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import astuple, dataclass, fields
from pathlib import Path

import click

from migration_payloads.files.output import OutputPath, is_in_place, replacing, say
from migration_service_client.command.conversion import (
    KINDS,
    Balance,
    Conversion,
    Problem,
    open_database,
    quoted,
)
from migration_service_client.command.errors import CannotRunError
from migration_service_client.command.lineage import rows_of
from migration_service_client.command.output import count, escape
from migration_service_client.command.sources import Reading, read_blocks

#: The number of problems that are shown. `--errors` has all.
_SHOWN = 20


@click.command()
@click.argument("sql", metavar="BOOK.sql", type=click.Path(dir_okay=False, path_type=Path))
@click.option("-o", "--output", type=OutputPath(), metavar="FILE", help="Where to write the book.")
@click.option("--errors", type=OutputPath(), metavar="FILE", help="Write what is wrong, and where, as CSV.")
@click.option(
    "--kind", type=click.Choice(list(KINDS)), default="accounts", show_default=True, help="The lines."
)
@click.option(
    "--start",
    "folder",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="DIR",
    help="Write a first BOOK.sql that says what is in the files of this folder.",
)
def convert(*, sql: Path, output: Path | None, errors: Path | None, kind: str, folder: Path | None) -> None:
    """Convert tables to a book of accounts, as BOOK.sql says.

    Comments of BOOK.sql name the files, and its last statement is a query with a row for each account.
    FILE.rows.csv leads from each part of an account to the row of which it was made.

    An account to which a row may belong that is not in the book is not written. The exit status is 0 if each
    row is in the book or left out on purpose, 1 if one is not or the book is empty, and 2 if the command
    could not run.
    """
    if (output is None) == (folder is None):
        raise click.UsageError("Expected either -o FILE, or --start DIR.")
    if output is not None:
        _convert(sql, output, errors, kind)
    elif folder is not None:
        if sql.exists():
            raise CannotRunError(f"{sql} exists. Expected the name of a new file.")
        text = start(folder, sql)
        with replacing(sql) as out:
            out.write(text.encode())


def _convert(sql: Path, output: Path, errors: Path | None, kind: str) -> None:
    try:
        text = sql.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise CannotRunError(f"{sql} is not UTF-8.") from None
    with ExitStack() as stack:
        conversion = Conversion(stack.enter_context(open_database()), sql, text)
        conversion.load()
        made = conversion.folder / "book.ndjson"
        with made.open("wb") as out:
            conversion.write(kind, out)
        problems, balances = conversion.judge(kind)
        if errors:
            with replacing(errors) as file:
                _write_problems(problems, io.TextIOWrapper(file, encoding="utf-8", newline=""))
        with replacing(output) as book, made.open("rb") as lines:
            book.writelines(conversion.lines(lines))
        if not is_in_place(output):
            with replacing(rows_of(output)) as file, conversion.copy_rows().open("rb") as rows:
                shutil.copyfileobj(rows, file)
    _show(problems, balances)
    held = f", {len(conversion.held)} held back" if conversion.held else ""
    noun = "account" if kind == "accounts" else "line"
    say(f"{count(conversion.written, noun)} in {output}{held}", err=True)
    if problems or not conversion.written:
        click.get_current_context().exit(1)


def _write_problems(problems: list[Problem], file: io.TextIOWrapper) -> None:
    writer = csv.writer(file)
    writer.writerow([it.name for it in fields(Problem)])
    writer.writerows(map(astuple, problems))
    file.detach()


def _show(problems: list[Problem], balances: list[Balance]) -> None:
    for it in problems[:_SHOWN]:
        rows = (
            f"row {it.first_row}" if it.first_row == it.last_row else f"rows {it.first_row} to {it.last_row}"
        )
        held = f" Held back: {it.accounts}." if it.accounts else ""
        say(escape(f"{it.file}, {rows}: {it.detail} ({it.code}){held}"), err=True)
    if len(problems) > _SHOWN:
        say(f"... and {len(problems) - _SHOWN} more", err=True)
    for code, number in Counter(it.code for it in problems).most_common():
        say(f"{code}: {number}", err=True)
    for balance in balances:
        say(escape(_sum(balance)), err=True)


def _sum(it: Balance) -> str:
    parts = [
        f"{it.used} used",
        *(f"{number} left out ({reason})" for reason, number in sorted(it.left_out.items())),
    ]
    parts += [
        f"{number} {name}"
        for name, number in (("held back", it.held_back), ("refused", it.refused))
        if number
    ]
    note = f". {count(it.in_utf8, 'row')} in UTF-8" if it.in_utf8 else ""
    return f"{it.file}: {count(it.read, 'row')} = {' + '.join(parts)}{note}"


_SUFFIXES = (".csv", ".txt", ".tsv", ".gz", ".xlsx", ".parquet")
_DELIMITERS = {";": ";", ",": ",", "\t": "tab", "|": "'|'"}
#: Forms of dates, each with the one that it may be mistaken for.
_FORMS = {
    "%d-%m-%Y": "%m-%d-%Y",
    "%m-%d-%Y": "%d-%m-%Y",
    "%d/%m/%Y": "%m/%d/%Y",
    "%m/%d/%Y": "%d/%m/%Y",
    "%d.%m.%Y": "%m.%d.%Y",
    "%Y-%m-%d": "%Y-%d-%m",
    "%Y%m%d": "%Y%d%m",
    "%d-%m-%y": "%y-%m-%d",
}
#: What numbers with a decimal sign look like.
_SIGNS = {
    "comma": r"[^0-9A-Za-z]*[0-9.]+,[0-9]{1,4}( ?(-|\)|CR|DR))?",
    "point": r"[^0-9A-Za-z]*[0-9,]*[0-9]\.[0-9]{1,4}-?",
}
_QUERY = """
select
  {number} as external_account_number, -- the column with the account's number
  'CODE' as import_supplier,
  -- customers, supply_addresses, ledgers, statements: lists of objects, each with its _row
  _row
from {table}
"""


def start(folder: Path, sql: Path) -> str:
    """Return a SQL file that will be at `sql`, and lists what is in the files of the folder."""
    files = sorted(it for it in folder.iterdir() if it.suffix.lower() in _SUFFIXES and it.is_file())
    files = [it for it in files if not it.name.endswith(".rows.csv")]
    if not files:
        raise CannotRunError(f"{folder} has no file that ends with {', '.join(_SUFFIXES)}.")
    place = sql.resolve().parent
    found = [it.resolve() for it in files]
    names = [str(it.relative_to(place) if it.is_relative_to(place) else it) for it in found]
    comments = [
        f"-- source {_table(file, number)}: '{name}'{_options(file)}"
        for number, (file, name) in enumerate(zip(files, names, strict=True), 1)
    ]
    with open_database() as database:
        conversion = Conversion(database, sql, "\n".join(comments))
        conversion.load()
        headers = {tuple(it.columns) for it in conversion.readings}
        shared = Counter(name for header in headers for name in header)
        tables = [(it, list(_columns(conversion, it))) for it in conversion.readings]
    # What tables with other columns have, too, and has many values, may lead from one to the other.
    keys = [
        [it for it in columns if shared[it.name] > 1 and it.may_be_key and "," not in it.name]
        for _, columns in tables
    ]
    lines = ["-- Set key= to the columns that lead to an account, and look at what is listed of each column."]
    for comment, (reading, columns), found_keys in zip(comments, tables, keys, strict=True):
        key = f" key='{','.join(it.name for it in found_keys)}'" if found_keys else ""
        lines += [comment + key, f"--   {_rows(reading)}", *(f"--   {it.name}: {it.says}" for it in columns)]
    # The table of the accounts has the column that most have, and most values of it, but each once.
    best = max(
        (
            (shared[it.name], it.weight, it.name, reading)
            for (reading, columns), found in zip(tables, keys, strict=True)
            for it in found or columns[:1]
        ),
        key=lambda it: it[:2],
    )
    return "\n".join(lines) + "\n" + _QUERY.format(number=quoted(best[2]), table=best[3].source.name)


def _table(file: Path, number: int) -> str:
    name = "".join(it if it.isascii() and it.isalnum() else "_" for it in file.name.partition(".")[0])
    return name if name[:1].isalpha() else f"t{number}_{name}"


def _options(file: Path) -> str:
    """Return the encoding and the delimiter of a text file as options of its source."""
    if file.suffix.lower() in (".xlsx", ".parquet"):
        return ""
    with file.open("rb") as stream:
        begin = stream.read(2)
        stream.seek(0)
        encoding = "utf-16" if begin in (b"\xff\xfe", b"\xfe\xff") else "utf-8"
        start, is_utf8 = b"", True
        for block in _lines(read_blocks(file, stream, encoding)):
            start = start or block[:100_000]
            try:
                block.decode()
            except UnicodeDecodeError:
                is_utf8 = False
                break
    counts = {it: start.partition(b"\n")[0].count(it.encode()) for it in _DELIMITERS}
    delimiter = max(counts, key=lambda it: counts[it])
    options = f" delimiter={_DELIMITERS[delimiter]}" if delimiter != "," and counts[delimiter] else ""
    options += " encoding=utf-16" if encoding == "utf-16" else ""
    return options if is_utf8 else f"{options} encoding=cp1252"


def _lines(blocks: Iterator[bytes]) -> Iterator[bytes]:
    """Yield blocks that end with a line."""
    rest = b""
    for block in blocks:
        whole, end, rest_of = (rest + block).rpartition(b"\n")
        yield whole + end
        rest = rest_of
    yield rest


@dataclass(frozen=True, slots=True)
class _Column:
    """What a column is like. `weight` is the more, the more values there are, and the fewer are repeated."""

    name: str
    says: str
    weight: float
    may_be_key: bool


def _rows(reading: Reading) -> str:
    faults = Counter(it.code for it in reading.faults)
    rest = "".join(f", {number} {code}" for code, number in faults.most_common())
    utf8 = f", {reading.in_utf8.total()} of them UTF-8" if reading.in_utf8.total() else ""
    return f"{count(reading.read.total(), 'row')}{utf8}{rest}"


def _columns(conversion: Conversion, reading: Reading) -> Iterator[_Column]:
    """Yield what each column of a table is like: its values, forms of dates, and decimal signs."""
    for column in reading.columns:
        number, distinct, *counts = conversion.ask(_counts(reading.source.name, column))[0]
        size = len(_FORMS)
        forms = list(zip(_FORMS, counts[:size], counts[size : 2 * size], strict=True))
        words = [count(number, "value"), f"{distinct} different"]
        is_date = 2 * max(days for _, days, _ in forms) >= number
        if is_date:
            words += [
                f"{form} {days}" + (f" ({both} ambiguous: {_FORMS[form]})" if both else "")
                for form, days, both in forms
                if days
            ]
        signs = [(sign, it) for sign, it in zip(_SIGNS, counts[2 * size :], strict=True) if it]
        words += [f"decimal {sign} {it}" for sign, it in signs]
        may_be_key = not is_date and not signs and distinct * 10 > number
        yield _Column(column, ", ".join(words), distinct**2 / number if number else 0.0, may_be_key)


def _counts(table: str, column: str) -> str:
    name = quoted(column)
    is_no_number = f"{name} not similar to '[0-9]{{1,7}}'"
    columns = [f"count({name})", f"count(distinct {name})"]
    columns += [f"count(*) filter ({is_no_number} and {_day(name, it)} is not null)" for it in _FORMS]
    columns += [f"count(*) filter ({_day(name, it)} <> {_day(name, other)})" for it, other in _FORMS.items()]
    columns += [f"count(*) filter (regexp_full_match({name}, '{it}'))" for it in _SIGNS.values()]
    return f"select {', '.join(columns)} from sources.{table}"


def _day(name: str, form: str) -> str:
    return f"_day(try_strptime({name}, '{form}'))"
