"""How the profile of a book differs from that of an earlier one.

A difference is reported if it is both large enough to matter and too large for chance. Values of one account
often depend on each other, so what counts as independent are `weight` values of a path (Kish), and not all.
"""

import math
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from migration_service_client.command.book_profile import POINTS

#: So many standard errors are no chance, although there are hundreds of paths with many tests each.
_ERRORS = 5.0
#: A value or member is gone, or new, if so many were to be expected.
_EXPECTED = 15.0
_CENTURY = 50 * 365
_POWERS = (-3, -2, -1, 1, 2, 3)
_MIDDLE = POINTS // 2

Known = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Drift:
    """A difference at a path. `kind` is one of the names in docs/suppliers/client-commands.md."""

    path: str
    kind: str
    says: str


@dataclass(frozen=True, slots=True)
class _Pair:
    """What is known of a path in both books."""

    old: Known
    new: Known

    def share_of(self, name: str, of: str = "values") -> tuple[float, float]:
        """Return what share the number `name` is of another one, in both books."""
        one, other = (it.get(name, 0) / max(1, it.get(of, 0)) for it in (self.old, self.new))
        return one, other

    def is_no_chance(self, one: float, other: float, weight: str = "weight") -> bool:
        """Return whether two shares differ by more than chance."""
        return _differ(one, self.old.get(weight, 0), other, self.new.get(weight, 0))

    def moves(self, one: float, other: float, least: float, weight: str = "weight") -> bool:
        """Return whether two shares differ by at least `least`, and by more than chance."""
        return abs(one - other) >= least and self.is_no_chance(one, other, weight)

    def largest_move(self, name: str, least: float) -> tuple[str, float, float] | None:
        """Return the value of a tally whose share changed most, with both shares, or None if none did."""
        one, other = self.old.get(name, {}), self.new.get(name, {})
        if not one or not other:
            return None
        sums = (sum(one.values()), sum(other.values()))
        shares = [(it, one.get(it, 0) / sums[0], other.get(it, 0) / sums[1]) for it in {**one, **other}]
        found = max(shares, key=lambda it: abs(it[1] - it[2]))
        return found if self.moves(found[1], found[2], least) else None


def find_drift(old: Known, new: Known) -> Iterator[Drift]:
    """Yield how the profile `new` differs from `old`, for each path the most telling differences."""
    for path in {**old["paths"], **new["paths"]}:
        pair = _Pair(old["paths"].get(path, {}), new["paths"].get(path, {}))
        parent = path.rpartition(".")[0]
        if parent and not (_has(old, parent) and _has(new, parent)):
            continue
        found = [Drift(path, *it) for it in _presence(pair)]
        if not found or found[0].kind == "missing":
            found += [Drift(path, *it) for look in _LOOKS for it in look(pair)]
        general = [it for it in found if it.kind in _GENERAL]
        # What is said in a special way need not be said in a general one.
        yield from general[:1] if len(general) == len(found) else (it for it in found if it not in general)


def _has(profile: Known, path: str) -> bool:
    """Return whether anything can be below a path: the account itself and items of lists have no record."""
    known = profile["paths"].get(path.removesuffix(".*"))
    return known is not None and known.get("values", 0) > known.get("null", 0)


def _presence(pair: _Pair) -> Iterator[tuple[str, str]]:
    one, other = (1 - it for it in _shares_missing(pair))
    if not pair.new and one * _parents(pair.old) >= _EXPECTED:
        yield "vanished", f"The member is gone. It was in {_percent(one)}."
    elif not pair.old and other * _parents(pair.new) >= _EXPECTED:
        yield "new", f"The member is new. It is in {_percent(other)}."
    elif pair.old and pair.new and pair.moves(one, other, 0.02, "weight_of_parents"):
        yield "missing", f"{_percent(1 - one)} were missing, null or empty, now {_percent(1 - other)} are."


def _shares_missing(pair: _Pair) -> tuple[float, float]:
    one, other = (
        1 - (it.get("values", 0) - it.get("null", 0) - it.get("empty", 0)) / max(1, it.get("parents", 0))
        for it in (pair.old, pair.new)
    )
    return one, other


def _parents(known: Known) -> float:
    weight: float = known.get("weight_of_parents", 0.0)
    return weight


def _kinds(pair: _Pair) -> Iterator[tuple[str, str]]:
    if found := pair.largest_move("kinds", 0.05):
        yield "type", f"{_percent(found[1])} were {found[0]}, now {_percent(found[2])} are."


def _items(pair: _Pair) -> Iterator[tuple[str, str]]:
    if "list" in pair.old.get("kinds", {}) and (found := pair.largest_move("lengths", 0.1)):
        name = "item" if found[0] == "1" else "items"
        yield "items", f"{_percent(found[1])} had {found[0]} {name}, now {_percent(found[2])} have."


def _numbers(pair: _Pair) -> Iterator[tuple[str, str]]:
    if "quantiles" not in pair.old or "quantiles" not in pair.new or "is_date" in pair.old:
        return
    one, other = pair.share_of("negative")
    if pair.moves(one, other, 0.3):
        yield "sign", f"{_percent(one)} were negative, now {_percent(other)} are."
    if power := _power_of_ten(pair):
        yield "factor", f"The values are about 10^{power} times what they were."
    elif (found := pair.largest_move("decimals", 0.2)) or (
        found := pair.largest_move("last_digits_of_cents", 0.2)
    ):
        yield ("rounding", f"The last digits differ in {_percent(abs(found[1] - found[2]))} of the values.")


def _power_of_ten(pair: _Pair) -> int | None:
    one, other = (sorted(map(abs, it["quantiles"]))[_MIDDLE] for it in (pair.old, pair.new))
    if not one or not other or not _is_moved(pair):
        return None
    found = math.log10(other / one)
    return next((it for it in _POWERS if abs(found - it) < 0.15), None)


def _dates(pair: _Pair) -> Iterator[tuple[str, str]]:
    one, other = pair.share_of("swapped")
    if pair.moves(one, other, 0.02):
        yield "day_and_month", f"{_percent(other)} have a month above 12: day and month are swapped."
        return
    if "is_date" not in pair.old or "is_date" not in pair.new:
        return
    shift = pair.new["quantiles"][_MIDDLE] - pair.old["quantiles"][_MIDDLE]
    if abs(shift) >= _CENTURY and _is_moved(pair):
        yield (
            "century",
            f"The dates are about {round(abs(shift) / 365.25)} years {'later' if shift > 0 else 'earlier'}.",
        )
    if found := pair.largest_move("hours", 0.1):
        yield "hours", f"{_percent(found[1])} were at {found[0]} h, now {_percent(found[2])} are."
    if found := pair.largest_move("days", 0.15):
        yield "days", f"{_percent(found[1])} were on day {found[0]}, now {_percent(found[2])} are."


def _invalid(pair: _Pair) -> Iterator[tuple[str, str]]:
    swapped = pair.share_of("swapped")
    one, other = (it - swapped[place] for place, it in enumerate(pair.share_of("invalid")))
    if pair.moves(one, other, 0.02):
        yield "invalid", f"{_percent(one)} could not be read, now {_percent(other)} cannot."


def _codes(pair: _Pair) -> Iterator[tuple[str, str]]:
    one, other = pair.old.get("codes", {}), pair.new.get("codes", {})
    if not one or not other:
        return
    for these, those, side, known in (
        (other, one, "new_code", (pair.new, pair.old)),
        (one, other, "gone_code", (pair.old, pair.new)),
    ):
        for code in (it for it in these if it not in those):
            share = these[code] / sum(these.values())
            if share * min(it.get("weight", 0) for it in known) >= _EXPECTED:
                words = ("is new", "have") if side == "new_code" else ("is gone", "had")
                yield side, f"The code {code!r} {words[0]}: {_percent(share)} {words[1]} it."
    if found := pair.largest_move("codes", 0.1):
        yield "shares", f"{_percent(found[1])} were {found[0]!r}, now {_percent(found[2])} are."


def _texts(pair: _Pair) -> Iterator[tuple[str, str]]:
    one, other = pair.share_of("damaged")
    if other > one and pair.moves(one, other, 0.005):
        yield "encoding", f"{_percent(other)} have letters that were lost or read in the wrong encoding."
    one, other = pair.share_of("rounded")
    if pair.moves(one, other, 0.02):
        yield "rounded", f"{_percent(other)} end with zeros, as numbers do that a spreadsheet has rounded."
    one, other = pair.share_of("upper_case", "lettered")
    if pair.moves(one, other, 0.3):
        yield "upper_case", f"{_percent(one)} were in upper case, now {_percent(other)} are."
    one, other = pair.old.get("repeated", 0.0), pair.new.get("repeated", 0.0)
    if "distinct" in pair.old and one < 0.05 and pair.moves(one, other, 0.05):
        yield "duplicates", f"{_percent(one)} of the values were there more than once, now {_percent(other)}."
    if found := pair.largest_move("shapes", 0.2):
        yield "form", f"{_percent(found[1])} had the form {found[0]!r}, now {_percent(found[2])} have."
    if "list" not in pair.old.get("kinds", {}) and (found := pair.largest_move("lengths", 0.2)):
        yield "length", f"{_percent(found[1])} had {found[0]} characters, now {_percent(found[2])} have."


def _most_frequent(pair: _Pair) -> Iterator[tuple[str, str]]:
    one, other = pair.share_of("most_frequent")
    if other > one and pair.moves(one, other, 0.3):
        yield "constant", f"One value was {_percent(one)} of all, now one is {_percent(other)}."


def _distribution(pair: _Pair) -> Iterator[tuple[str, str]]:
    if "quantiles" in pair.old and "quantiles" in pair.new and _is_moved(pair):
        apart = _distance(pair.old["quantiles"], pair.new["quantiles"])
        yield "distribution", f"{_percent(apart)} of the values would have to move to be as before."


_LOOKS: tuple[Callable[[_Pair], Iterator[tuple[str, str]]], ...] = (
    *(_kinds, _items, _numbers, _dates, _invalid, _codes, _texts, _most_frequent, _distribution),
)
#: What is a consequence of something else more often than not, from the most telling to the least.
_GENERAL = ("shares", "form", "length", "distribution")


def _is_moved(pair: _Pair) -> bool:
    apart = _distance(pair.old["quantiles"], pair.new["quantiles"])
    sizes = [min(it["weight"], it["sampled"]) for it in (pair.old, pair.new)]
    return apart >= 0.15 and apart > 2.5 * math.sqrt(sum(sizes) / math.prod(sizes))


def _distance(one: Sequence[float], other: Sequence[float]) -> float:
    """Return how far two distributions are apart (Kolmogorov and Smirnov), from 0 to 1."""
    return max(abs(bisect_right(one, it) - bisect_right(other, it)) for it in {*one, *other}) / POINTS


def _differ(one: float, number: float, other: float, of_other: float) -> bool:
    if not number or not of_other:
        return False
    both = (one * number + other * of_other) / (number + of_other)
    error = math.sqrt(max(both * (1 - both), 1e-9) * (1 / number + 1 / of_other))
    return abs(one - other) > _ERRORS * error


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"
