"""What differs between two books, in memory that does not grow with them.

The first pass over the old book keeps a hash of each line in a temporary file: 64 bits, with a key of this
process. A line of the new book with the same account and hash is unchanged, and is not even parsed. The other
lines with a known account are kept in the temporary file, too, until the second pass over the old book comes
to their account.
"""

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
CREATE TABLE old (account BLOB PRIMARY KEY, hash INTEGER, line INTEGER) WITHOUT ROWID;
CREATE TABLE waiting (old_line INTEGER PRIMARY KEY, new_line INTEGER, text BLOB);
CREATE TABLE new (account BLOB PRIMARY KEY) WITHOUT ROWID;
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


class _Number(msgspec.Struct):
    """The member of a line that is compared first. The decoder skips everything else."""

    external_account_number: str


# How most lines begin. Decoding a whole line would take longer than anything else that is done with it.
_BEGINNING = re.compile(rb'\{\s*"external_account_number"\s*:\s*"([^"\\]+)"')
_split = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_read_number = msgspec.json.Decoder(_Number).decode


class Comparison:
    """Compares two books: call `add_old`, `compare_new` and `explain` in this order."""

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
        return dict(self._counts)

    def add_old(self, lines: Iterable[Line]) -> None:
        """Remember the accounts of the old book."""
        insert = "INSERT OR IGNORE INTO old VALUES (?, ?, ?)"
        for line, account in self._readable(lines, "unreadable_in_old"):
            if self._db.execute(insert, (account, hash(line.text), line.number)).rowcount:
                self._states.extend(bytes(line.number - len(self._states)))
                self._states.append(_NOT_MET)
            else:
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
        wanted = self._states.count(_NOT_MET) + self._states.count(_WAITING)
        for line in lines:
            state = self._states[line.number] if line.number < len(self._states) else _MET
            if state == _NOT_MET:
                yield self._count(Verdict.VANISHED), line.text or b"", None
            elif state == _WAITING:
                yield self._explain(line)
            wanted -= state in (_NOT_MET, _WAITING)
            if not wanted:
                return
        if wanted:
            raise CannotRunError("The old book has lost lines while delta ran. Run it again.")

    def _readable(self, lines: Iterable[Line], otherwise: str) -> Iterator[tuple[Line, bytes]]:
        for line in lines:
            number = _find_number(line.text or b"")
            if number is None:
                self._counts[otherwise] += 1
            else:
                yield line, blake2b(number, digest_size=16).digest()

    def _compare(self, line: Line, account: bytes) -> Verdict | None:
        """Return the verdict, or None if the account waits for the second pass over the old book."""
        select = "SELECT hash, line FROM old WHERE account = ?"
        known = self._db.execute(select, (account,)).fetchone()
        if known is None:
            added = self._db.execute("INSERT OR IGNORE INTO new VALUES (?)", (account,)).rowcount
            return Verdict.NEW if added else Verdict.REPEATED
        hashed, old_line = known
        if self._states[old_line] != _NOT_MET:
            return Verdict.REPEATED
        self._states[old_line] = _MET
        if hashed == hash(line.text):
            return Verdict.UNCHANGED
        self._states[old_line] = _WAITING
        packed = zlib.compress(line.text or b"", 1)
        self._db.execute("INSERT INTO waiting VALUES (?, ?, ?)", (old_line, line.number, packed))
        return None

    def _explain(self, old: Line) -> tuple[Verdict, bytes, dict[str, Any] | None]:
        select = "SELECT new_line, text FROM waiting WHERE old_line = ?"
        new_line, packed = self._db.execute(select, (old.number,)).fetchone()
        new = zlib.decompress(packed)
        paths = list(_differing_paths(old.text or b"", new))
        if not paths:
            return self._count(Verdict.UNCHANGED), new, None
        number = (_find_number(new) or b"").decode(errors="replace")
        places = {"external_account_number": number, "old_line": old.number, "new_line": new_line}
        return self._count(Verdict.CHANGED), new, places | {"paths": paths}

    def _count(self, verdict: Verdict) -> Verdict:
        self._counts[verdict] += 1
        return verdict


_NOTHING = (None, None, b"")


def _differing_paths(old: bytes, new: bytes) -> Iterator[str]:
    """Yield the paths at which two lines differ. Only the members whose texts differ are parsed."""
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
            yield from differing_paths(*values)


def _find_number(text: bytes) -> bytes | None:
    """Return the account number of a line, or None if it has none. Only what is necessary is parsed."""
    if found := _BEGINNING.match(text):
        return found[1]
    try:
        return _read_number(text).external_account_number.encode()
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
