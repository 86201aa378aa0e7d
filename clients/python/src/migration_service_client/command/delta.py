"""`migration-client delta`: what differs between two books, in memory that does not grow with them.

The old book is read first: of each account its line is kept, and a hash of that, 64 bits with a key of this
process, in a temporary file. A line of the new book that has another hash waits there until the old book is
read once more.
"""

import sqlite3
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from enum import StrEnum
from pathlib import Path
from typing import IO, Any

import click
import msgspec

from migration_payloads.errors import ParseError
from migration_payloads.files.account_numbers import find_number
from migration_payloads.files.ndjson import Line
from migration_payloads.files.output import OutputPath, replacing, say
from migration_payloads.normal_form import ACCOUNT
from migration_payloads.schemas.json import encode_json, parse_json
from migration_service_client.command.errors import CannotRunError
from migration_service_client.command.lines import open_lines
from migration_service_client.command.output import count, json_option, show_json

_TABLES = """
CREATE TABLE old (account TEXT PRIMARY KEY, line INTEGER, hash INTEGER) WITHOUT ROWID;
CREATE TABLE waiting (old_line INTEGER PRIMARY KEY, new_line INTEGER, text BLOB);
CREATE TABLE new (account TEXT PRIMARY KEY) WITHOUT ROWID;
"""
#: What is known of a line of the old book: its account has not been met in the new one, has been met, or
#: waits for the second pass. Lines without an account of their own have none of these states.
_NOT_MET, _MET, _WAITING = 1, 2, 3


class Verdict(StrEnum):
    """What happened to an account between two books. The parts have these names."""

    UNCHANGED = "unchanged"
    CHANGED = "changed"
    NEW = "new"
    VANISHED = "vanished"
    REPEATED = "repeated"


_split = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


#: The verdict on a line, the line, and for a changed one what differs.
Outcome = tuple[Verdict, bytes, dict[str, Any] | None]


class Comparison:
    """Compares two books: call `read_old`, `compare`, then `explain`."""

    def __init__(self) -> None:
        # An empty name is a temporary file that is deleted in the end, and that a cache of 32 MB precedes.
        self._db = sqlite3.connect("", isolation_level=None)
        self._db.executescript("PRAGMA cache_size = -32000; PRAGMA journal_mode = OFF; BEGIN;" + _TABLES)
        #: The state of each line of the old book, by its number.
        self._states = bytearray()
        self._counts = dict.fromkeys(
            (*Verdict, "repeated_in_old", "repeated_in_new", "unreadable_in_old", "unreadable_in_new"), 0
        )

    def __enter__(self) -> "Comparison":
        return self

    def __exit__(self, *_: object) -> None:
        self._db.close()

    def counts(self) -> dict[str, int]:
        """Return the number of lines with each verdict, and of those that cannot be compared."""
        return self._counts | {"repeated_in_new": self._counts[Verdict.REPEATED]}

    def read_old(self, lines: Iterable[Line]) -> None:
        """Read the old book."""
        count = 0

        def rows() -> Iterator[tuple[str, int, int]]:
            nonlocal count
            for line, account in self._readable(lines, "unreadable_in_old"):
                count += 1
                yield account, line.number, hash(line.text)

        added = self._db.executemany("INSERT OR IGNORE INTO old VALUES (?, ?, ?)", rows()).rowcount
        self._counts["repeated_in_old"] = count - max(0, added)
        for (number,) in self._db.execute("SELECT line FROM old ORDER BY line"):
            self._states.extend(bytes(number - len(self._states)))
            self._states.append(_NOT_MET)

    def compare(self, lines: Iterable[Line]) -> Iterator[Outcome]:
        """Yield the lines of the new book whose verdict is known without a second pass over the old one."""
        for line, account in self._readable(lines, "unreadable_in_new"):
            if outcome := self._compare(line, account):
                yield outcome

    def explain(self, lines: Iterable[Line]) -> Iterator[Outcome]:
        """Yield the other lines with their verdicts, and for each changed one what differs.

        `lines` are those of the old book once more. Raise CannotRunError if it is no longer the same.
        """
        wanted = self._states.count(_NOT_MET) + self._states.count(_WAITING)
        if not wanted:
            return
        for line in lines:
            state = self._states[line.number] if line.number < len(self._states) else _MET
            if state == _NOT_MET:
                yield self._judge(Verdict.VANISHED, line)
            elif state == _WAITING:
                select = "SELECT new_line, text FROM waiting WHERE old_line = ?"
                number, packed = self._db.execute(select, (line.number,)).fetchone()
                yield self._explain(line, Line(number, zlib.decompress(packed)))
            wanted -= state in (_NOT_MET, _WAITING)
            if not wanted:
                return
        raise CannotRunError("The old book has lost lines while delta ran. Run it again.")

    def _readable(self, lines: Iterable[Line], otherwise: str) -> Iterator[tuple[Line, str]]:
        for line in lines:
            account = find_number(line.text or b"")
            if account is None:
                self._counts[otherwise] += 1
            else:
                yield line, account

    def _compare(self, new: Line, account: str) -> Outcome | None:
        """Return the outcome of a line, or None if it waits for the second pass."""
        known = self._db.execute("SELECT line, hash FROM old WHERE account = ?", (account,)).fetchone()
        if known is None:
            added = self._db.execute("INSERT OR IGNORE INTO new VALUES (?)", (account,)).rowcount
            return self._judge(Verdict.NEW if added else Verdict.REPEATED, new)
        old_line, hashed = known
        if self._states[old_line] != _NOT_MET:
            return self._judge(Verdict.REPEATED, new)
        if hashed == hash(new.text):
            self._states[old_line] = _MET
            return self._judge(Verdict.UNCHANGED, new)
        self._states[old_line] = _WAITING
        packed = zlib.compress(new.text or b"", 1)
        self._db.execute("INSERT INTO waiting VALUES (?, ?, ?)", (old_line, new.number, packed))
        return None

    def _explain(self, old: Line, new: Line) -> Outcome:
        paths = list(_differing_paths(old.text or b"", new.text or b""))
        if not paths:
            return self._judge(Verdict.UNCHANGED, new)
        places = {
            "external_account_number": find_number(new.text or b""),
            "old_line": old.number,
            "new_line": new.number,
        }
        return self._judge(Verdict.CHANGED, new, places | {"paths": paths})

    def _judge(self, verdict: Verdict, line: Line, difference: dict[str, Any] | None = None) -> Outcome:
        self._counts[verdict] += 1
        return verdict, line.text or b"", difference


def _differing_paths(old: bytes, new: bytes) -> Iterator[str]:
    """Yield the paths at which two lines differ. Only the members whose texts differ are parsed.

    An item of a list has the path that it has in the new line, if it is there.
    """
    try:
        one, other = _split(old), _split(new)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        yield ""
        return
    for name in one | other:
        pair = (bytes(one.get(name, b"")), bytes(other.get(name, b"")))
        if pair[0] == pair[1]:
            continue
        try:
            values = [{name: parse_json(it)} if it else {} for it in pair]
        except ParseError:
            # One of them has what the service refuses, such as the same member twice.
            yield name
        else:
            yield from (it.path for it in ACCOUNT.find_differences(values[1], values[0]))


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
