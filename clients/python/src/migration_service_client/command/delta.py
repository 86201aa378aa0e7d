"""`migration-client delta`."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO

import click

from migration_payloads.files.output import OutputPath, replacing, say
from migration_payloads.schemas.json import encode_json
from migration_service_client.command.comparison import Comparison, Outcome, Verdict
from migration_service_client.command.errors import CannotRunError
from migration_service_client.command.lines import open_lines
from migration_service_client.command.output import count, json_option, show_json

_FILE = click.Path(dir_okay=False, allow_dash=True, path_type=Path)


@click.command()
@click.argument("old", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.argument("new", type=_FILE)
@click.option(
    "-o",
    "--output",
    type=OutputPath(is_folder=True),
    required=True,
    metavar="DIR",
    help="The folder for the parts, which is made.",
)
@click.option("--unchanged", is_flag=True, help="Also write what is unchanged, which may be most of NEW.")
@json_option
def delta(*, old: Path, new: Path, output: Path, unchanged: bool, as_json: bool) -> None:
    """Split the book NEW into what is unchanged, changed and new since OLD.

    \b
    DIR/changed.ndjson     the lines of NEW that say something else
    DIR/new.ndjson         the lines of NEW whose account is not in OLD
    DIR/vanished.ndjson    the lines of OLD whose account is not in NEW
    DIR/paths.ndjson       the paths that differ, for each line of changed.ndjson
    DIR/repeated.ndjson    the lines of NEW whose account an earlier line of NEW has
    DIR/unchanged.ndjson   the other lines of NEW, with --unchanged

    Accounts are matched by external_account_number. What makes no difference to the service makes none here,
    such as the order of members, 1.10 for 1.1, or an empty text. If a book has an account twice, its first
    line counts.

    The books are NDJSON, plain or gzip. NEW may be - for standard input. OLD is a file, because it may be
    read twice. The exit status is 0 if the books say the same, 1 if they differ, and 2 if delta could not
    run.
    """
    if not old.is_file():
        raise CannotRunError(
            f"{old} is not a regular file, and it may be read again. Write its content to one."
        )
    if output.is_dir() and any(output.iterdir()):
        raise CannotRunError(f"{output} is not empty. Name a new folder for the parts.")
    output.mkdir(parents=True, exist_ok=True)
    with Comparison() as comparison, _Parts.open(output, unchanged=unchanged) as parts:
        with open_lines(old, f"Reading {old.name}") as lines:
            comparison.read_old(lines)
        with open_lines(new, f"Comparing {new.name}") as lines:
            parts.write_all(comparison.compare(lines))
        with open_lines(old, f"Reading {old.name} again") as lines:
            parts.write_all(comparison.explain(lines))
        counts = comparison.counts()
    if as_json:
        show_json(counts)
    else:
        _show(counts, old, new)
    same = not any(number for name, number in counts.items() if name != Verdict.UNCHANGED)
    click.get_current_context().exit(0 if same else 1)


class _Parts:
    """The files of the parts. They appear under their names when all of them are complete."""

    def __init__(self, files: Mapping[str, IO[bytes]]) -> None:
        self._files = files

    @classmethod
    @contextmanager
    def open(cls, folder: Path, *, unchanged: bool) -> Iterator["_Parts"]:
        names = [it for it in (*Verdict, "paths") if unchanged or it != Verdict.UNCHANGED]
        with ExitStack() as stack:
            yield cls({it: stack.enter_context(replacing(folder / f"{it}.ndjson")) for it in names})

    def write_all(self, outcomes: Iterable[Outcome]) -> None:
        for verdict, text, difference in outcomes:
            if file := self._files.get(verdict):
                file.write(text + b"\n")
            if difference:
                self._files["paths"].write(encode_json(difference) + b"\n")


def _show(counts: dict[str, int], old: Path, new: Path) -> None:
    for verdict in Verdict:
        say(f"{count(counts[verdict], 'account')} {verdict}")
    for name, book in (("old", old), ("new", new)):
        if repeated := counts[f"repeated_in_{name}"]:
            accounts = "an account that an earlier line has" if repeated == 1 else "accounts of earlier lines"
            say(f"{book}: {count(repeated, 'line')} with {accounts}. The first line counts.")
        if unreadable := counts[f"unreadable_in_{name}"]:
            say(
                f"{book}: {count(unreadable, 'line')} without a readable account number, in no part. "
                "Run `migration-client check` to see why."
            )
