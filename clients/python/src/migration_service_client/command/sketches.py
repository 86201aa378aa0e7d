"""Small summaries of many values, each of a size that does not grow with their number."""

import heapq
from bisect import bisect_right
from collections.abc import Sequence
from hashlib import blake2b
from random import Random
from typing import Any

#: The points of a distribution: the least value, the most, and those in between in equal steps.
POINTS = 101


class Sample:
    """A random sample of numbers that come one by one (algorithm R), and the extremes with their lines."""

    SIZE = 1_000
    _EXTREMES = 3

    def __init__(self) -> None:
        self.number = 0
        self._values: list[float] = []
        self._random = Random(0).random
        self._least: list[tuple[float, int]] = []
        self._most: list[tuple[float, int]] = []

    def add(self, value: float, line: int) -> None:
        """Add a value, and the line on which it is."""
        self.number += 1
        if len(self._values) < self.SIZE:
            self._values.append(value)
        elif (place := int(self._random() * self.number)) < self.SIZE:
            self._values[place] = value
        for extremes, sign in ((self._least, -1), (self._most, 1)):
            if len(extremes) < self._EXTREMES:
                heapq.heappush(extremes, (sign * value, line))
            elif sign * value > extremes[0][0]:
                heapq.heapreplace(extremes, (sign * value, line))

    def quantiles(self) -> list[float]:
        """Return the points of the distribution. The first and the last are exact."""
        values = sorted(self._values)
        points = [values[round(step * (len(values) - 1) / (POINTS - 1))] for step in range(POINTS)]
        return [-max(self._least)[0], *points[1:-1], max(self._most)[0]]

    def outliers(self) -> list[tuple[float, int]]:
        """Return extremes with lines that are more than three quartile distances outside the quartiles."""
        points = self.quantiles()
        low, high = points[POINTS // 4], points[3 * POINTS // 4]
        room = 3 * (high - low)
        found = [(-value, line) for value, line in self._least if -value < low - room]
        found += [(value, line) for value, line in self._most if value > high + room]
        # A value that is on several lines is shown with the first of them.
        return sorted(dict(sorted(found, reverse=True)).items()) if room else []


class Distinct:
    """How many different values there are, and what share of them occurs more than once.

    The values with the smallest hashes are counted ("k minimum values"): they are a sample of all different
    ones.
    """

    _SIZE = 512
    _ALL = 1 << 64

    def __init__(self) -> None:
        self._counts: dict[int, int] = {}
        self._largest: list[int] = []

    def add(self, value: str) -> None:
        """Add a value."""
        hashed = int.from_bytes(blake2b(value.encode(errors="replace"), digest_size=8).digest())
        if hashed in self._counts:
            self._counts[hashed] += 1
            return
        if len(self._counts) < self._SIZE:
            heapq.heappush(self._largest, -hashed)
        elif hashed < -self._largest[0]:
            del self._counts[-heapq.heapreplace(self._largest, -hashed)]
        else:
            return
        self._counts[hashed] = 1

    def number(self) -> int:
        """Return about how many different values there are. Below 512 it is exact."""
        if len(self._counts) < self._SIZE:
            return len(self._counts)
        return (self._SIZE - 1) * self._ALL // -self._largest[0]

    def repeated(self) -> float:
        """Return about what share of the different values occurs more than once."""
        return sum(it > 1 for it in self._counts.values()) / max(1, len(self._counts))


class Frequent:
    """How often the most frequent value occurs, at least (Misra and Gries)."""

    _SIZE = 16

    def __init__(self) -> None:
        self._counts: dict[Any, int] = {}

    def add(self, value: Any) -> None:
        """Add a value."""
        counts = self._counts
        if value in counts:
            counts[value] += 1
        elif len(counts) < self._SIZE:
            counts[value] = 1
        else:
            self._counts = {it: number - 1 for it, number in counts.items() if number > 1}

    def most(self) -> int:
        """Return a number that the most frequent value occurs at least."""
        return max(self._counts.values(), default=0)


class Tally:
    """Counts of different values. Once there are many, further ones count together as an empty text."""

    _SIZE = 500

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}

    def add(self, value: str) -> None:
        """Count a value."""
        if value not in self.counts and len(self.counts) >= self._SIZE:
            value = ""
        self.counts[value] = self.counts.get(value, 0) + 1


def distance(one: Sequence[float], other: Sequence[float]) -> float:
    """Return how far two distributions are apart (Kolmogorov and Smirnov), from 0 to 1."""
    return max(abs(bisect_right(one, it) - bisect_right(other, it)) for it in {*one, *other}) / POINTS
