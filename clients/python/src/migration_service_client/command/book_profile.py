"""What the values of a book are like, path by path, without the values of persons."""

import re
from collections.abc import Iterable, Iterator
from datetime import date
from decimal import Decimal
from typing import Any

from marshmallow import Schema
from marshmallow.fields import Field

from migration_payloads.errors import ParseError
from migration_payloads.files.ndjson import Line
from migration_payloads.schemas.account import ACCOUNT_IMPORT
from migration_payloads.schemas.fields import (
    Day,
    Ean,
    FreeObject,
    Identifier,
    LocalMoment,
    Number,
    Values,
    WholeNumber,
)
from migration_payloads.schemas.json import parse_json
from migration_payloads.schemas.privacy import is_nobodys
from migration_service_client.command.sketches import Distinct, Frequent, Sample, Tally
from migration_service_client.command.values import field_below, is_code, read_number

#: More paths than the schema has, but not so many that members with names like numbers fill the memory.
_MOST_PATHS = 300
_DAY = re.compile(r"(\d{4})-(\d\d)-(\d\d)(T(\d\d):\d\d:\d\d(\.\d+)?)?", re.ASCII)
# Text in UTF-8 that was read as Latin-1 or Windows-1252, and characters that were lost on the way.
_DAMAGED = re.compile("[\u00c2-\u00c3][\u0080-\u00bf\u2018-\u203a]|\u00e2\u20ac|\ufffd")
_RUNS = re.compile(r"(a)a+|(A)A+")
_LONGEST = 60


class _Shapes(dict[int, str]):
    """Replaces digits by 9, and letters by a or A."""

    def __missing__(self, code: int) -> str:
        it = chr(code)
        self[code] = "9" if it.isdigit() else "A" if it.isupper() else "a" if it.isalpha() else it
        return self[code]


_SHAPES = _Shapes()


class Path:
    """The values at one path of all accounts, as far as they have been added."""

    def __init__(self, field: Field[Any] | Schema | None) -> None:
        self.field = field
        self._is_code = isinstance(field, Field) and is_code(field)
        self._is_number = isinstance(field, Number | WholeNumber)
        self._is_date = isinstance(field, Day | LocalMoment)
        self._is_identifier = isinstance(field, Identifier | Ean) and not self._is_code
        self._is_personal = bool(getattr(field, "personal", True))
        self.members: dict[str, Path] = {}
        self.items: Path | None = None
        #: The number of values, of accounts that have one, and the sum of squares of the numbers in each.
        self.number = self.accounts = self._squares = self._in_account = self._line = 0
        self.null = self.empty = self._damaged = self._upper = self._lettered = 0
        self._invalid = self._swapped = self._negative = 0
        self._kinds, self._lengths, self._shapes, self._values = Tally(), Tally(), Tally(), Tally()
        self._decimals, self._cents = Tally(), Tally()
        self._days, self._months, self._hours = Tally(), Tally(), Tally()
        self._sample, self._distinct, self._frequent = Sample(), Distinct(), Frequent()

    def weight(self) -> float:
        """Return how many independent values there are, if those of an account are not (Kish)."""
        squares = self._squares + self._in_account**2
        return self.number**2 / squares if squares else 0.0

    def add(self, value: Any, line: int) -> None:
        """Add a value, and all below it."""
        if line != self._line:
            self._squares += self._in_account**2
            self._line, self._in_account = line, 0
            self.accounts += 1
        self.number += 1
        self._in_account += 1
        if value is None:
            self.null += 1
        elif isinstance(value, dict):
            self._kinds.add("object")
            if not isinstance(self.field, FreeObject) and self.field is not None:
                self._add_members(value, line)
        elif isinstance(value, list):
            self._kinds.add("list")
            self._lengths.add(str(min(len(value), _LONGEST)))
            self._add_items(value, line)
        else:
            self._add_scalar(value, line)

    def _add_members(self, value: dict[str, Any], line: int) -> None:
        for name, below in value.items():
            member = self.members.get(name)
            if member is None:
                if len(self.members) >= _MOST_PATHS:
                    continue
                member = self.members[name] = Path(field_below(self.field, name))
            member.add(below, line)

    def _add_items(self, value: list[Any], line: int) -> None:
        if self.items is None:
            self.items = Path(self.field.inner if isinstance(self.field, Values) else self.field)
        for item in value:
            self.items.add(item, line)

    def _add_scalar(self, value: Any, line: int) -> None:
        text = value if isinstance(value, str) else str(value)
        self._kinds.add(_kind(value))
        if not text:
            self.empty += 1
            return
        self._frequent.add(text)
        if self._is_code and isinstance(self.field, Field):
            # A text that cannot be a code may be a person's.
            shown = text if is_nobodys(self.field, value) else text.translate(_SHAPES)
            self._values.add(shown[:_LONGEST])
        elif self._is_number:
            self._add_number(value, line)
        elif self._is_date:
            self._add_date(text, line)
        if not self._is_number or isinstance(value, str):
            self._add_text(text)

    def _add_text(self, text: str) -> None:
        self._lengths.add(str(min(len(text), _LONGEST)))
        if self._is_date or self._is_number:
            return
        if self._is_identifier:
            self._distinct.add(text)
        shape = text[:_LONGEST].translate(_SHAPES)
        if not self._is_code:
            self._shapes.add(_RUNS.sub(r"\1\2", shape))
        if _DAMAGED.search(text):
            self._damaged += 1
        if "A" in shape or "a" in shape:
            self._lettered += 1
            self._upper += "a" not in shape

    def _add_number(self, value: Any, line: int) -> None:
        number = read_number(value, self.field)
        if number is None:
            self._invalid += 1
            return
        self._negative += number < 0
        self._sample.add(float(number), line)
        written = format(number, "f").partition(".")[2].rstrip("0")
        self._decimals.add(str(min(len(written), 6)))
        self._cents.add(str(int(abs(number) * 100) % 10))

    def _add_date(self, text: str, line: int) -> None:
        found = _DAY.fullmatch(text)
        try:
            year, month, day = (int(it) for it in found.group(1, 2, 3)) if found else (0, 0, 0)
            value = date(year, month, day)
        except ValueError:
            self._invalid += 1
            if found and 1 <= day <= 12 and 12 < month <= 31:
                self._swapped += 1
            return
        # The exact date of birth is a person's.
        self._sample.add((date(year, 1, 1) if self._is_personal else value).toordinal(), line)
        self._days.add(str(day))
        self._months.add(str(month))
        if found and found[5]:
            self._hours.add(found[5])

    def to_dict(self, parents: int, weight_of_parents: float) -> dict[str, Any]:
        """Return what is known of the path, without values that are 0 or empty."""
        known: dict[str, Any] = {
            "parents": parents,
            "weight_of_parents": round(weight_of_parents, 1),
            "weight": round(self.weight(), 1),
            "values": self.number,
            "null": self.null,
            "empty": self.empty,
            "kinds": self._kinds.counts,
            "lengths": self._lengths.counts,
            "shapes": self._shapes.counts,
            "codes": self._values.counts,
            "most_frequent": self._frequent.most(),
            "damaged": self._damaged,
            "lettered": self._lettered,
            "upper_case": self._upper,
            "invalid": self._invalid,
            "swapped": self._swapped,
            "negative": self._negative,
            "decimals": self._decimals.counts,
            "last_digits_of_cents": self._cents.counts,
            "days": self._days.counts,
            "months": self._months.counts,
            "hours": self._hours.counts,
        }
        if self._is_identifier:
            known |= {"distinct": self._distinct.number(), "repeated": round(self._distinct.repeated(), 4)}
        if self._sample.number:
            known |= {"sampled": min(self._sample.number, Sample.SIZE), "quantiles": self._sample.quantiles()}
            known["is_date"] = self._is_date
            if not self._is_personal:
                known["outliers"] = self._sample.outliers()
        return {name: value for name, value in known.items() if value not in (0, {}, [], False)}


def profile_book(lines: Iterable[Line]) -> dict[str, Any]:
    """Return the profile of a book: the numbers of its lines, and each path with what is known of it."""
    root, count, unreadable = Path(ACCOUNT_IMPORT), 0, 0
    for line in lines:
        count += 1
        try:
            account = parse_json(line.text or b"")
        except ParseError:
            account = None
        if isinstance(account, dict):
            root.add(account, line.number)
        else:
            unreadable += 1
    paths = dict(_walk(root, ""))
    return {"migration_profile": 1, "lines": count, "unreadable": unreadable, "paths": paths}


def _walk(path: Path, name: str) -> Iterator[tuple[str, dict[str, Any]]]:
    objects = path.number if path.items is None else 0
    owner, prefix = path, f"{name}." if name else ""
    if path.items is not None:
        owner, objects, prefix = path.items, path.items.number, f"{name}.*."
        if not owner.members:
            yield f"{name}.*", owner.to_dict(owner.number, owner.weight())
    for member, below in owner.members.items():
        yield f"{prefix}{member}", below.to_dict(objects, owner.weight())
        yield from _walk(below, f"{prefix}{member}")


def _kind(value: Any) -> str:
    if isinstance(value, str):
        return "text"
    return "boolean" if isinstance(value, bool) else "number" if isinstance(value, int | Decimal) else "null"
