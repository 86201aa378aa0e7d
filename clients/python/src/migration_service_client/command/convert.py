"""`migration-client convert`."""

import csv
import io
import shutil
from collections import Counter
from contextlib import ExitStack
from dataclasses import astuple, fields
from pathlib import Path

import click

from migration_payloads.files.output import OutputPath, is_in_place, replacing, say
from migration_service_client.command.conversion import KINDS, Balance, Conversion, Problem, open_database
from migration_service_client.command.errors import CannotRunError
from migration_service_client.command.lineage import rows_of
from migration_service_client.command.output import count, escape
from migration_service_client.command.start import start

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
    row is in the book or left out on purpose, 1 otherwise, and 2 if the command could not run.
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
