"""What differs between two books, in memory that does not grow with them.

The first pass over the old book keeps a hash of each line in a temporary file: 64 bits, with a key of this
process. A line of the new book with the same account and hash is unchanged, and is not even parsed. The other
lines with a known account are kept in the temporary file, too, until the second pass over the old book comes
to their account.
"""

import heapq
import re
import sqlite3
import zlib
from collections.abc import Iterable, Iterator
from enum import StrEnum
from hashlib import blake2b
from typing import Any

import msgspec

from migration_payloads.errors import ParseError
from migration_payloads.files.ndjson import Line
from migration_payloads.schemas.json import parse_json
from migration_service_client.command.errors import CannotRunError
from migration_service_client.command.values import differing_paths

_TABLES = """
CREATE TABLE old (account BLOB PRIMARY KEY, hash INTEGER, line INTEGER, met INTEGER) WITHOUT ROWID;
CREATE TABLE waiting (old_line INTEGER PRIMARY KEY, new_line INTEGER, text BLOB);
CREATE TABLE new (account BLOB PRIMARY KEY) WITHOUT ROWID;
"""


class Verdict(StrEnum):
    """What happened to an account between two books. The parts have these names."""

    UNCHANGED = "unchanged"
    CHANGED = "changed"
    NEW = "new"
    VANISHED = "vanished"
    REPEATED = "repeated"


class _Number(msgspec.Struct):
    """The member of a line that is compared first. The decoder skips everything else."""

    external_account_number: str


# How most lines begin. Decoding a whole line would take longer than anything else that is done with it.
_BEGINNING = re.compile(rb'\{\s*"external_account_number"\s*:\s*"([^"\\]+)"')
_read_number = msgspec.json.Decoder(_Number).decode


class Comparison:
    """Compares two books: call `add_old`, `compare_new` and `explain` in this order."""

    def __init__(self) -> None:
        # An empty name is a temporary file that is deleted in the end, and that a cache of 32 MB precedes.
        self._db = sqlite3.connect("", isolation_level=None)
        self._db.executescript("PRAGMA cache_size = -32000; PRAGMA journal_mode = OFF; BEGIN;" + _TABLES)
        self._counts = dict.fromkeys(
            (*Verdict, "repeated_in_old", "repeated_in_new", "unreadable_in_old", "unreadable_in_new"), 0
        )

    def __enter__(self) -> "Comparison":
        return self

    def __exit__(self, *_: object) -> None:
        self._db.close()

    def counts(self) -> dict[str, int]:
        """Return the number of lines with each verdict, and of those that cannot be compared."""
        return dict(self._counts)

    def add_old(self, lines: Iterable[Line]) -> None:
        """Remember the accounts of the old book."""
        insert = "INSERT OR IGNORE INTO old VALUES (?, ?, ?, 0)"
        for line, account in self._readable(lines, "unreadable_in_old"):
            if not self._db.execute(insert, (account, hash(line.text), line.number)).rowcount:
                self._counts["repeated_in_old"] += 1

    def compare_new(self, lines: Iterable[Line]) -> Iterator[tuple[Verdict, bytes]]:
        """Yield the lines of the new book whose verdict is known without the old line."""
        for line, account in self._readable(lines, "unreadable_in_new"):
            verdict = self._compare(line, account)
            if verdict is not None:
                yield self._count(verdict), line.text or b""
        self._counts["repeated_in_new"] = self._counts[Verdict.REPEATED]

    def explain(self, lines: Iterable[Line]) -> Iterator[tuple[Verdict, bytes, dict[str, Any] | None]]:
        """Yield the other lines with their verdicts, and for each changed one what differs.

        `lines` are those of the old book once more. Raise CannotRunError if it is no longer the same.
        """
        wanted = self._wanted()
        old_line, new_line, packed = next(wanted, _NOTHING)
        for line in lines:
            if old_line is None:
                return
            if line.number != old_line:
                continue
            if new_line is None:
                yield self._count(Verdict.VANISHED), line.text or b"", None
            else:
                yield self._explain(line, new_line, zlib.decompress(packed))
            old_line, new_line, packed = next(wanted, _NOTHING)
        if old_line is not None:
            raise CannotRunError(f"The old book lost its line {old_line} while delta ran. Run it again.")

    def _readable(self, lines: Iterable[Line], otherwise: str) -> Iterator[tuple[Line, bytes]]:
        for line in lines:
            number = _find_number(line.text or b"")
            if number is None:
                self._counts[otherwise] += 1
            else:
                yield line, blake2b(number, digest_size=16).digest()

    def _compare(self, line: Line, account: bytes) -> Verdict | None:
        """Return the verdict, or None if the account waits for the second pass over the old book."""
        first = "UPDATE old SET met = 1 WHERE account = ? AND met = 0 RETURNING hash, line"
        found = self._db.execute(first, (account,)).fetchone()
        if found is None:
            known = self._db.execute("SELECT 1 FROM old WHERE account = ?", (account,)).fetchone()
            insert = "INSERT OR IGNORE INTO new VALUES (?)"
            is_new = not known and self._db.execute(insert, (account,)).rowcount
            return Verdict.NEW if is_new else Verdict.REPEATED
        hashed, old_line = found
        if hashed == hash(line.text):
            return Verdict.UNCHANGED
        packed = zlib.compress(line.text or b"", 1)
        self._db.execute("INSERT INTO waiting VALUES (?, ?, ?)", (old_line, line.number, packed))
        return None

    def _wanted(self) -> Iterator[Any]:
        """Yield the lines of the old book to read again, in their order. Vanished ones have no new line."""
        waiting = self._db.execute("SELECT old_line, new_line, text FROM waiting ORDER BY old_line")
        vanished = self._db.execute("SELECT line, NULL, NULL FROM old WHERE met = 0 ORDER BY line")
        return heapq.merge(waiting, vanished)

    def _explain(self, old: Line, new_line: int, new: bytes) -> tuple[Verdict, bytes, dict[str, Any] | None]:
        try:
            paths = differing_paths(parse_json(old.text or b""), parse_json(new))
        except ParseError:
            # One of them has what the service refuses, such as the same member twice.
            paths = [""]
        if not paths:
            return self._count(Verdict.UNCHANGED), new, None
        number = (_find_number(new) or b"").decode(errors="replace")
        places = {"external_account_number": number, "old_line": old.number, "new_line": new_line}
        return self._count(Verdict.CHANGED), new, places | {"paths": paths}

    def _count(self, verdict: Verdict) -> Verdict:
        self._counts[verdict] += 1
        return verdict


_NOTHING = (None, None, b"")


def _find_number(text: bytes) -> bytes | None:
    """Return the account number of a line, or None if it has none. Only what is necessary is parsed."""
    if found := _BEGINNING.match(text):
        return found[1]
    try:
        return _read_number(text).external_account_number.encode()
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
