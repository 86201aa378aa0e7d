"""`migration-client convert`."""

import csv
import io
import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import astuple, dataclass, field, fields
from pathlib import Path
from typing import IO, Any

import click

from migration_payloads.files.output import OutputPath, replacing, say
from migration_payloads.schemas.json import encode_json
from migration_service_client.command.conversion.assembly import Assembly
from migration_service_client.command.conversion.mapping import Plan
from migration_service_client.command.conversion.problems import Problem
from migration_service_client.command.conversion.reading import read_mapping
from migration_service_client.command.conversion.settings import MappingError
from migration_service_client.command.conversion.store import Store
from migration_service_client.command.conversion.tables import Table
from migration_service_client.command.conversion.template import template
from migration_service_client.command.errors import CannotRunError
from migration_service_client.command.output import count, escape, progress

#: The number of problems that are shown. `--errors` has all.
_SHOWN = 20
#: Accounts between two steps of the progress bar.
_STEP = 500
_FILE = click.Path(dir_okay=False, path_type=Path)


@click.command()
@click.argument("mapping", type=_FILE, required=False)
@click.option("-o", "--output", type=OutputPath(), metavar="FILE", help="Where to write the book.")
@click.option("--errors", type=OutputPath(), metavar="FILE", help="Write all that does not map as CSV.")
@click.option("--check", is_flag=True, help="Write no book. Only tell what does not map.")
@click.option("--template", "print_template", is_flag=True, help="Print an empty mapping with every field.")
def convert(
    *, mapping: Path | None, output: Path | None, errors: Path | None, check: bool, print_template: bool
) -> None:
    """Convert flat files to a book of accounts, as the mapping in a TOML file says.

    An account of which something does not map is not written. The exit status is 1 if there is one, or a row
    that belongs to no account.
    """
    if print_template:
        say(template(), nl=False)
        return
    if mapping is None or (output is None) != check:
        raise click.UsageError("Expected a MAPPING, and either -o FILE or --check.")
    try:
        plan = read_mapping(mapping)
    except MappingError as error:
        raise CannotRunError(f"{mapping}: {error}") from None
    with ExitStack() as stack:
        report = stack.enter_context(_report(errors))
        book = stack.enter_context(replacing(output)) if output else None
        try:
            _convert(plan, report, book)
        except sqlite3.Error as error:
            raise CannotRunError(
                f"The temporary file of rows: {error}. Set TMPDIR to a folder with more room."
            ) from error
    report.show(output)
    if report.codes:
        click.get_current_context().exit(1)


@dataclass(slots=True)
class _Report:
    """What was converted, and what was not."""

    writer: Any = None
    written: int = 0
    held_back: int = 0
    skipped: int = 0
    codes: Counter[str] = field(default_factory=Counter)

    def add(self, problem: Problem) -> None:
        """Write a problem, and show the first ones."""
        if self.writer:
            self.writer.writerow(astuple(problem))
        if self.codes.total() < _SHOWN:
            column = f", column {problem.column}" if problem.column else ""
            place = f"{problem.file}, row {problem.row}{column}"
            say(escape(f"{place}: {problem.detail} ({problem.code})"), err=True)
        self.codes[problem.code] += 1

    def show(self, output: Path | None) -> None:
        """Show the counts."""
        if self.codes.total() > _SHOWN:
            say(f"... and {self.codes.total() - _SHOWN} more", err=True)
        for code, number in self.codes.most_common():
            say(f"{code}: {number}", err=True)
        place = f" in {output}" if output else ""
        left_out = f", {self.skipped} left out by `skip`" if self.skipped else ""
        say(f"{count(self.written, 'account')}{place}, {self.held_back} held back{left_out}", err=True)


def _convert(plan: Plan, report: _Report, book: IO[bytes] | None) -> None:
    with ExitStack() as stack:
        tables = {file.name: stack.enter_context(closing(Table(file))) for file in plan.files}
        missing = [problem for table in tables.values() for problem in table.missing_columns()]
        for problem in missing:
            report.add(problem)
        if missing:
            return
        store = stack.enter_context(closing(Store(plan.files)))
        counts = {file.name: store.load(file, tables[file.name].rows()) for file in plan.files}
        for name, table in tables.items():
            if unused := table.unused_columns():
                say(escape(f"Note: the mapping does not use of {name}: {', '.join(unused)}"), err=True)
        _assemble(Assembly(plan, store, counts), counts[plan.account.file.name], report, book)


def _assemble(assembly: Assembly, rows: int, report: _Report, book: IO[bytes] | None) -> None:
    with progress("Accounts", rows) as bar:
        for number, account in enumerate(assembly.accounts(), 1):
            for problem in account.problems:
                report.add(problem)
            if account.skipped:
                report.skipped += 1
            elif account.is_held_back:
                report.held_back += 1
            elif account.payload:
                report.written += 1
                if book:
                    book.write(encode_json(account.payload) + b"\n")
            if number % _STEP == 0:
                bar.update(_STEP)
        for problem in assembly.unused_rows():
            report.add(problem)


@contextmanager
def _report(path: Path | None) -> Iterator[_Report]:
    if path is None:
        yield _Report()
        return
    with replacing(path) as out:
        file = io.TextIOWrapper(out, encoding="utf-8", newline="")
        writer = csv.writer(file)
        writer.writerow([it.name for it in fields(Problem)])
        yield _Report(writer)
        file.detach()
