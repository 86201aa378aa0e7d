"""What differs between two books, in memory that does not grow with them.

Both are read at the same pace. Most accounts have not moved far, so their two lines are in memory at the same
time, and are compared as they are. A line of the old book whose account does not come soon is forgotten but
for a hash: 64 bits, with a key of this process, in a temporary file. A line of the new book that has another
hash waits there for a second pass over the old book. While too many lines of the new book have found no
account, only the old one is read.
"""

import sqlite3
import zlib
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from enum import StrEnum
from hashlib import blake2b
from typing import Any

import msgspec

from migration_payloads.errors import ParseError
from migration_payloads.files.account_numbers import find_number
from migration_payloads.files.ndjson import Line
from migration_payloads.normal_form import ACCOUNT
from migration_payloads.schemas.json import parse_json
from migration_service_client.command.errors import CannotRunError

_TABLES = """
CREATE TABLE old (account BLOB PRIMARY KEY, line INTEGER, hash INTEGER) WITHOUT ROWID;
CREATE TABLE waiting (old_line INTEGER PRIMARY KEY, new_line INTEGER, text BLOB);
CREATE TABLE new (account BLOB PRIMARY KEY) WITHOUT ROWID;
"""
#: What is known of a line of the old book: its account has not been met in the new one, has been met, or
#: waits for the second pass. Lines without an account of their own have none of these states.
_NOT_MET, _MET, _WAITING = 1, 2, 3
#: The bytes of lines that each book may have in memory.
_WINDOW = 16_000_000
#: The bytes that stand for a longer account number.
_DIGEST = 16
#: How many accounts of the old book are written to the temporary file together.
_TOGETHER = 50_000


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


class _Window:
    """Lines by their account, in the order in which they came."""

    def __init__(self) -> None:
        self._lines: OrderedDict[bytes, Line] = OrderedDict()
        self._size = 0

    def __contains__(self, account: bytes) -> bool:
        return account in self._lines

    @property
    def is_full(self) -> bool:
        return self._size > _WINDOW

    def add(self, account: bytes, line: Line) -> None:
        self._lines[account] = line
        self._size += len(line.text or b"")

    def take(self, account: bytes) -> Line | None:
        line = self._lines.pop(account, None)
        self._size -= len(line.text or b"") if line else 0
        return line

    def take_first(self) -> tuple[bytes, Line] | None:
        if not self._lines:
            return None
        account, line = self._lines.popitem(last=False)
        self._size -= len(line.text or b"")
        return account, line


class _Accounts:
    """The accounts of the old book, each with its line and, once that is forgotten, with its hash."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db
        self._recent: dict[bytes, tuple[int, int | None]] = {}
        self._has_written = False

    def get(self, account: bytes) -> tuple[int, int | None] | None:
        known = self._recent.get(account)
        if known is None and self._has_written:
            select = "SELECT line, hash FROM old WHERE account = ?"
            known = self._db.execute(select, (account,)).fetchone()
        return known

    def put(self, account: bytes, line: int, hashed: int | None = None) -> None:
        self._recent[account] = (line, hashed)
        if len(self._recent) >= _TOGETHER:
            rows = ((key, *self._recent[key]) for key in sorted(self._recent))
            self._db.executemany("INSERT OR REPLACE INTO old VALUES (?, ?, ?)", rows)
            self._recent.clear()
            self._has_written = True


class Comparison:
    """Compares two books: call `compare`, then `explain`."""

    def __init__(self) -> None:
        # An empty name is a temporary file that is deleted in the end, and that a cache of 32 MB precedes.
        self._db = sqlite3.connect("", isolation_level=None)
        self._db.executescript("PRAGMA cache_size = -32000; PRAGMA journal_mode = OFF; BEGIN;" + _TABLES)
        self._accounts = _Accounts(self._db)
        self._old, self._new = _Window(), _Window()
        self._old_has_ended = False
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

    def compare(self, old: Iterable[Line], new: Iterable[Line]) -> Iterator[Outcome]:
        """Yield the lines whose verdict is known without a second pass over the old book."""
        old_lines = self._readable(old, "unreadable_in_old")
        for line, account in self._readable(new, "unreadable_in_new"):
            yield from self._read_old_lines(old_lines)
            yield from self._read_new(line, account)
        while not self._old_has_ended:
            yield from self._read_old_lines(old_lines)

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

    def _readable(self, lines: Iterable[Line], otherwise: str) -> Iterator[tuple[Line, bytes]]:
        for line in lines:
            found = find_number(line.text or b"")
            if found is None:
                self._counts[otherwise] += 1
            else:
                number = found.encode()
                # So a long number takes no more memory than others.
                yield line, number if len(number) < _DIGEST else blake2b(number, digest_size=_DIGEST).digest()

    def _read_new(self, new: Line, account: bytes) -> Iterator[Outcome]:
        if old := self._old.take(account):
            self._states[old.number] = _MET
            yield self._explain(old, new)
        elif known := self._accounts.get(account):
            old_line, hashed = known
            if self._states[old_line] != _NOT_MET:
                yield self._judge(Verdict.REPEATED, new)
            elif hashed == hash(new.text):
                self._states[old_line] = _MET
                yield self._judge(Verdict.UNCHANGED, new)
            else:
                self._states[old_line] = _WAITING
                packed = zlib.compress(new.text or b"", 1)
                self._db.execute("INSERT INTO waiting VALUES (?, ?, ?)", (old_line, new.number, packed))
        elif account in self._new:
            yield self._judge(Verdict.REPEATED, new)
        elif self._old_has_ended:
            yield self._judge_unknown(new, account)
        else:
            self._new.add(account, new)

    def _judge_unknown(self, new: Line, account: bytes) -> Outcome:
        added = self._db.execute("INSERT OR IGNORE INTO new VALUES (?)", (account,)).rowcount
        return self._judge(Verdict.NEW if added else Verdict.REPEATED, new)

    def _read_old_lines(self, lines: Iterator[tuple[Line, bytes]]) -> Iterator[Outcome]:
        """Read a line of the old book, or more if lines of the new one have no room."""
        for line, account in lines:
            yield from self._read_old(line, account)
            if not self._new.is_full:
                return
        self._old_has_ended = True
        while first := self._new.take_first():
            yield self._judge_unknown(first[1], first[0])

    def _read_old(self, old: Line, account: bytes) -> Iterator[Outcome]:
        if self._accounts.get(account):
            self._counts["repeated_in_old"] += 1
            return
        self._accounts.put(account, old.number)
        self._states.extend(bytes(old.number - len(self._states)))
        new = self._new.take(account)
        self._states.append(_MET if new else _NOT_MET)
        if new:
            yield self._explain(old, new)
            return
        self._old.add(account, old)
        if self._old.is_full and (first := self._old.take_first()):
            self._accounts.put(first[0], first[1].number, hash(first[1].text))

    def _explain(self, old: Line, new: Line) -> Outcome:
        if old.text == new.text:
            return self._judge(Verdict.UNCHANGED, new)
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
