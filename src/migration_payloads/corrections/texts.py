"""Corrections of texts: identifiers, telephone numbers, e-mail addresses and paths."""

import re
import unicodedata

from migration_payloads.corrections.correction import corrects
from migration_payloads.corrections.place import Place, Steps, lesser
from migration_payloads.errors import Confidence
from migration_payloads.schemas import identifiers
from migration_payloads.schemas.fields import DocumentPath, EmailAddress, PhoneNumber

#: What is written in place of nothing.
_NOTHING = frozenset({"-", "--", "?", "x", "n/a", "na", "nvt", "n.v.t.", "geen", "onbekend", "unknown"})
_LONGEST = 300
#: Words that say no more than that a telephone number follows.
_LABEL = re.compile(
    r"[ :]*(?:(?:tel|telefoon|telefoonnummer|phone|mobiel|mobile|mob|gsm|nr|t|m)[ :]*)?", re.I
)
#: Compatibility forms that mean something else than the plain character, such as the 2 in m².
_OTHER_MEANINGS = ("<super>", "<sub>", "<fraction>", "<circle>")
#: A control character within a text, which may have parted what would be joined without it.
_CONTROLS = re.compile(r"(?<=[^\0-\x1f\x7f])[\0-\x08\x0e-\x1b\x7f]+(?=[^\0-\x1f\x7f])")
#: The hyphen at which no line is broken, which word processors write.
_NO_BREAK_HYPHEN = "\u2011"


@corrects(
    "outer_spaces",
    "invalid_characters",
    "invisible_characters",
    "bidirectional_characters",
    "not_normalised",
    "compatibility_characters",
    longest=_LONGEST,
)
def visible_characters(place: Place) -> Steps:
    """Take out what cannot be seen, and spaces around the text. A line feed or a tab becomes a space.

    A letter that was read as several becomes the one that it is. It is a guess if a character may have been a
    letter in another encoding, parts what would be joined, or is a small or raised form, and likely if it is
    a dash for a hyphen.
    """
    text = identifiers.mend_encoding(place.value.replace("\0", ""))
    is_sure = not _CONTROLS.search(place.value) and not any("\x80" <= it < "\xa0" for it in text)
    sure = Confidence.CERTAIN if is_sure else Confidence.GUESS
    if isinstance(place.field, EmailAddress | PhoneNumber):
        text = identifiers.without_hidden(text)
    elif place.code != "invalid_characters" or not place.accepts(text):  # else, a note keeps its lines
        text = identifiers.without_invisible(text)
    if place.code in ("not_normalised", "compatibility_characters", "outer_spaces"):
        text = unicodedata.normalize("NFC", text)
    if place.code == "compatibility_characters":
        if any(unicodedata.decomposition(it).startswith(_OTHER_MEANINGS) for it in text):
            sure = Confidence.GUESS
        elif any(ord(it) in identifiers.DASHES and it != _NO_BREAK_HYPHEN for it in text):
            sure = lesser(sure, Confidence.LIKELY)
        text = identifiers.plain_form(text)
    new = text.strip()
    if not new or new == place.value or not place.accepts(new):
        return []
    return [place.replace(new, sure)]


@corrects("wrong_encoding", longest=2_000)
def right_encoding(place: Place) -> Steps:
    """Write a letter that was read as several, such as `Ã¼`, as the one that it is."""
    new = identifiers.mend_encoding(place.value)
    return [place.replace(new, Confidence.CERTAIN)] if new != place.value and place.accepts(new) else []


@corrects("invalid_phone_number", fields=(PhoneNumber,), longest=40)
def phone_number(place: Place) -> Steps:
    """Write a telephone number as digits, with the plus of its prefix.

    It is certain if nothing else is left out, likely if a word such as `tel.` is, and a guess if other words
    or a second number are, or if a number becomes a foreign one.
    """
    if place.value.strip().casefold() in _NOTHING:
        return [place.replace("", Confidence.LIKELY)]
    text = unicodedata.normalize("NFKC", identifiers.without_hidden(place.value)).translate(
        identifiers.DASHES
    )
    # A part without a number of its own, such as the hour in `na 18 u`, is never added to another.
    parts = [it for it in re.split(r"[^0-9+().\-_ /]+|/(?= *[0+])", text) if re.search(r"[0-9]", it)]
    numbers = [found for it in parts if (found := _read_number(place, it))]
    if not numbers:
        return _with_zeros(place, text)
    new, sure = numbers[0]
    if len(parts) > 1 or not _LABEL.fullmatch(re.sub(r"[0-9+().\-_ /]+", " ", text)):
        sure = Confidence.GUESS
    elif re.search(r"[^0-9+().\-_ /]", text):
        sure = lesser(sure, Confidence.LIKELY)
    return [place.replace(new, sure)]


def _read_number(place: Place, part: str) -> tuple[str, Confidence] | None:
    """Return the digits of a text without letters if they are a valid number. A prefix may lack its plus.

    All digits are kept: a number with some more, such as `0612345678/79`, is none. What begins with a zero
    has no prefix that lacks its plus.
    """
    digits = re.sub(r"[^0-9]", "", part)
    if part.lstrip(" (").startswith("+"):
        return (f"+{digits}", Confidence.CERTAIN) if place.accepts(f"+{digits}") else None
    if len(digits) < 8:
        return None
    if place.accepts(digits):
        return digits, Confidence.CERTAIN
    is_foreign = digits[0] != "0" and place.accepts(f"+{digits}")
    return (f"+{digits}", Confidence.GUESS) if is_foreign else None


def _with_zeros(place: Place, text: str) -> Steps:
    """Return the number in which the letter O stands for a zero, which is a guess."""
    digits = re.sub(r"[ .\-]", "", text).upper().replace("O", "0")
    found = _read_number(place, digits) if re.fullmatch(r"\+?[0-9]+", digits) else None
    return [place.replace(found[0], Confidence.GUESS)] if found else []


@corrects("invalid_email_address", fields=(EmailAddress,), longest=_LONGEST)
def email_address(place: Place) -> Steps:
    """Take out of an e-mail address what does not belong to it: spaces, `mailto:`, a comma for a dot.

    It is a guess if words are left out or joined.
    """
    if place.value.strip().casefold() in _NOTHING:
        return [place.replace("", Confidence.LIKELY)]
    text = unicodedata.normalize("NFKC", identifiers.without_hidden(place.value))
    for spelt in ("(at)", "[at]"):
        text = text.replace(spelt, "@")
    text = re.sub(r"\s*@+\s*", "@", text).strip().strip("<>;,.").removeprefix("mailto:").strip()
    name, _, domain = text.rpartition("@")
    domain = re.sub(r"\s*[.,]+\s*", ".", domain)
    plain = f"{re.sub(r'[.]{2,}', '.', name)}@{domain}"
    if place.accepts(plain):
        return [place.replace(plain, Confidence.LIKELY)] if plain != place.value else []
    # Words beside an address are a guess to leave out. An address of joined words would be invented.
    found = [it for it in re.split(r"[\s<>();,]+", text) if "@" in it and place.accepts(it)]
    return [place.replace(found[0], Confidence.GUESS)] if found else []


@corrects("invalid_document_path", fields=(DocumentPath,), longest=1024)
def relative_path(place: Place) -> Steps:
    r"""Write a path with `/` between its parts, without a drive, a doubled `/` or `./`.

    It is a guess if the path began with a drive or a server.
    """
    path = re.sub(r"^[A-Za-z]:(?=[\\/])", "//", place.value.strip()).replace("\\", "/")
    new = "/".join(part for part in path.split("/") if part not in ("", "."))
    sure = Confidence.GUESS if path.startswith("//") else Confidence.LIKELY
    return [place.replace(new, sure)] if new and place.accepts(new) else []
