"""Pseudonyms: other texts of the same form, the same for the same text as long as the key is the same.

The mapping is a Feistel network over the letters and digits of a text, as in format-preserving encryption:
different texts have different pseudonyms, without a table of them. Everything else in a text, its length, and
upper and lower case stay as they are. Texts that differ only in case or in other characters have pseudonyms
that differ only so.
"""

import re
from collections.abc import Callable, Iterator
from datetime import date, timedelta
from hashlib import blake2b
from itertools import islice

import phonenumbers

from migration_payloads.rules.customers import is_test_address
from migration_payloads.rules.gs1 import check_digit, is_nothing, is_probably_rounded

_DIGITS = "0123456789"
_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_ACCENTED = "àáâãäåæçèéêëìíîïðñòóôõöøùúûüýþ"
_ALPHABETS = (_DIGITS, _LETTERS, _ACCENTED)
_ROUNDS = 6
#: How many candidates are tried for a text of the same kind.
_TRIES = 100
#: The most digits of a network or area code.
_LONGEST_NETWORK = 4
#: The most letters of an extension. A longer end of a name, such as `bill.Hofstra`, may be of a person.
_LONGEST_EXTENSION = 4
#: The first year of a pseudonym for a date, and how many years follow: usual, too early, and in the future.
_ERAS = ((1925, 80), (1700, 200), (2200, 700))


class Pseudonyms:
    """Pseudonyms under a secret key. A candidate is taken if `is_like` says that it is of the same kind."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def text(self, text: str, is_like: Callable[[str], bool] = bool) -> str:
        """Return another text."""
        return _choose(self._walk(text), is_like, text)

    def email(self, text: str, is_like: Callable[[str], bool]) -> str:
        """Return another address. Of an address that looks made up, the part that shows it is kept."""
        name, at, domain = text.rpartition("@")

        def candidates() -> Iterator[str]:
            yield from islice(self._walk(text), _TRIES)
            if is_test_address(f"a@{domain}"):
                yield from (f"{other}{at}{domain}" for other in islice(self._walk(name), _TRIES))
            if is_test_address(f"{name}@a"):
                yield from (f"{name}{at}{other}" for other in islice(self._walk(domain), _TRIES))

        return _choose(candidates(), is_like, text, 3 * _TRIES)

    def phone(self, text: str, is_like: Callable[[str], bool]) -> str:
        """Return another number. Of a valid one the country and the network may be kept, and nothing else.

        Wherever there is another letter or digit, the number has a different one.
        """
        places = [place for place, it in enumerate(text) if _find_in_alphabets(it)]
        kept = _find_network(text)

        def candidates() -> Iterator[str]:
            for these in (kept, frozenset[int]()):
                replaced = [place for place in places if place not in these]
                yield from (self._shift(text, replaced, number) for number in range(_TRIES))

        return _choose(candidates(), is_like, text, 2 * _TRIES)

    def day(self, text: str, is_like: Callable[[str], bool]) -> str:
        """Return another date, or another text if `text` is none."""
        try:
            date.fromisoformat(text)
        except ValueError:
            return self.text(text, is_like)
        drawn = int.from_bytes(self._digest("day", text))

        def candidates() -> Iterator[str]:
            for first, years in _ERAS:
                for step in range(2):
                    days = (drawn + step) % (years * 365)
                    yield (date(first, 1, 1) + timedelta(days=days)).isoformat()

        return _choose((it for it in candidates() if it != text), is_like, text)

    def ean(self, text: str, is_like: Callable[[str], bool]) -> str:
        """Return another EAN, whose check digit is as right or as wrong, and whose end is as round."""
        if len(text) != 18 or not (text.isascii() and text.isdigit()):
            return self.text(text, is_like)
        if is_nothing(text):
            return text  # it is nobody's
        error = int(text[-1]) - int(check_digit(text[:-1]))
        numbers = (it + str((int(check_digit(it)) + error) % 10) for it in self._walk(text[:-1]))
        rounded = is_probably_rounded(text)
        return _choose((it for it in numbers if is_probably_rounded(it) == rounded), is_like, text)

    def path(self, text: str, is_like: Callable[[str], bool]) -> str:
        """Return another path of a document with the same extension."""
        name, dot, extension = text.rpartition(".")
        if not name or not extension.isalpha() or len(extension) > _LONGEST_EXTENSION:
            return self.text(text, is_like)
        return _choose((f"{it}{dot}{extension}" for it in self._walk(name)), is_like, text)

    def _shift(self, text: str, places: list[int], number: int) -> str:
        """Return the text with other letters and digits at the places, the same for the same ones there."""
        there = "".join(text[place].lower() for place in places)
        characters, drawn = list(text), b""
        for index, place in enumerate(places):
            if not index % 64:
                drawn = self._digest("phone", number, there, index)
            alphabet, value = _find_in_alphabets(text[place]) or (_DIGITS, 0)
            other = alphabet[(value + 1 + drawn[index % 64] % (len(alphabet) - 1)) % len(alphabet)]
            characters[place] = other.upper() if text[place].isupper() else other
        return "".join(characters)

    def _walk(self, text: str) -> Iterator[str]:
        """Yield pseudonyms of `text`, each the one of the one before. This is called cycle walking."""
        while True:
            text = self._permute(text)
            yield text

    def _permute(self, text: str) -> str:
        places = [(place, *found) for place, it in enumerate(text) if (found := _find_in_alphabets(it))]
        sizes = [len(alphabet) for _, alphabet, _ in places]
        values = [value for _, _, value in places]
        if len(values) == 1:
            values[0] += 1 + self._digest("1", sizes)[0] % (sizes[0] - 1)
        else:
            for number in range(_ROUNDS):
                self._mix(number, values, sizes)
        characters = list(text)
        for (place, alphabet, _), value in zip(places, values, strict=True):
            other = alphabet[value % len(alphabet)]
            characters[place] = other.upper() if text[place].isupper() else other
        return "".join(characters)

    def _mix(self, number: int, values: list[int], sizes: list[int]) -> None:
        """Add to each second value what the others determine."""
        start = number % 2
        others = values[1 - start :: 2]
        block = b""
        for index, place in enumerate(range(start, len(values), 2)):
            offset = index % 32
            if not offset:
                block = self._digest(number, index, others, sizes)
            values[place] = (values[place] + int.from_bytes(block[2 * offset :][:2])) % sizes[place]

    def _digest(self, *parts: object) -> bytes:
        return blake2b(repr(parts).encode(), key=self._key, digest_size=64).digest()


def _find_in_alphabets(character: str) -> tuple[str, int] | None:
    """Return the alphabet of a letter or digit and its place there, or None for other characters."""
    if character.isdecimal():
        return _DIGITS, int(character)
    lower = character.lower()
    for alphabet in _ALPHABETS:
        if (place := alphabet.find(lower)) >= 0:
            return alphabet, place
    # A letter of another script becomes one with an accent.
    return (_ACCENTED, ord(lower[0]) % len(_ACCENTED)) if character.isalnum() else None


def _find_network(text: str) -> frozenset[int]:
    """Return the places of the digits for the country and the network of the telephone number in a text."""
    try:
        number = phonenumbers.parse(text, "NL")
    except phonenumbers.NumberParseException:
        return frozenset()
    digits = [(place, str(int(it))) for place, it in enumerate(text) if it.isdecimal()]
    written, subscriber = "".join(it for _, it in digits), phonenumbers.national_significant_number(number)
    start = written.find(subscriber)
    if start < 0 or not phonenumbers.is_valid_number(number):
        return frozenset()
    before = re.search(rf"((00)?{number.country_code})?0?$", written[:start])
    first = before.start() if before else start
    network = min(phonenumbers.length_of_national_destination_code(number), _LONGEST_NETWORK)
    return frozenset(place for place, _ in digits[first : start + network])


def _choose(candidates: Iterator[str], is_like: Callable[[str], bool], text: str, tries: int = _TRIES) -> str:
    """Return the first candidate of the same kind, or else the first one."""
    first = None
    for candidate in islice(candidates, tries):
        if is_like(candidate):
            return candidate
        first = first or candidate
    return first or text
