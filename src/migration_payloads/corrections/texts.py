"""Corrections of texts: identifiers, EANs, telephone numbers, e-mail addresses and paths."""

import re
import unicodedata

from migration_payloads.corrections.correction import corrects
from migration_payloads.corrections.place import Place, Steps
from migration_payloads.errors import Confidence
from migration_payloads.rules.gs1 import check_digit, is_gs1_number
from migration_payloads.schemas.fields import DocumentPath, Ean, EmailAddress, PhoneNumber
from migration_payloads.schemas.identifiers import find_invisible

#: What is written in place of nothing.
_NOTHING = frozenset({"-", "--", "?", "x", "n/a", "na", "nvt", "n.v.t.", "geen", "onbekend", "unknown"})
_LONGEST = 300


@corrects(
    "outer_spaces",
    "invalid_characters",
    "invisible_characters",
    "bidirectional_characters",
    "not_normalised",
    "compatibility_characters",
)
def visible_characters(place: Place) -> Steps:
    """Take out what cannot be seen, and spaces around the text. A line feed or a tab becomes a space."""
    if not isinstance(place.value, str) or len(place.value) > _LONGEST:
        return []
    text = place.value.replace("\0", "")
    if find_invisible(text):
        text = re.sub(r"[\r\n\t\v\f]+", " ", text)
        text = "".join(it for it in text if not find_invisible(it))
    if place.code in ("not_normalised", "compatibility_characters", "outer_spaces"):
        text = unicodedata.normalize("NFKC" if place.code == "compatibility_characters" else "NFC", text)
    new = text.strip()
    if not new or new == place.value or not place.accepts(new):
        return []
    return [place.replace(new, Confidence.CERTAIN)]


@corrects("invalid_ean", fields=(Ean,))
def ean_of_digits(place: Place) -> Steps:
    """Take spaces, dots and hyphens out of an EAN, and add its check digit if it is missing."""
    if not isinstance(place.value, str) or len(place.value) > 60 or place.value.isdecimal():
        return []
    digits = re.sub(r"[\s.\-\u00a0]", "", place.value).upper().removeprefix("EAN").lstrip(":")
    if re.fullmatch(r"[0-9]{17}", digits):
        return [place.replace(digits + check_digit(digits), Confidence.LIKELY)]
    return [place.replace(digits, Confidence.CERTAIN)] if is_gs1_number(digits, 18) else []


@corrects("invalid_phone_number", fields=(PhoneNumber,))
def phone_number(place: Place) -> Steps:
    """Write a telephone number without words, and with the plus of its prefix.

    Of two numbers, it takes the first, which is a guess.
    """
    if not isinstance(place.value, str) or len(place.value) > 40:
        return []
    if place.value.strip().casefold() in _NOTHING:
        return [place.replace("", Confidence.LIKELY)]
    numbers = [_plain_number(it) for it in re.split(r"[/;,|]|\b(?:en|of|or)\b", place.value)]
    numbers = [it for it in numbers if len(it) >= 8]
    if not numbers:
        return []
    sure = Confidence.LIKELY if len(numbers) == 1 else Confidence.GUESS
    candidates = (numbers[0], f"+{numbers[0]}")
    new = next((it for it in candidates if it != place.value and place.accepts(it)), None)
    return [place.replace(new, sure)] if new else []


def _plain_number(text: str) -> str:
    digits = re.sub(r"[^0-9]", "", text.replace("(0)", "").replace("O", "0"))
    return f"+{digits}" if text.lstrip().startswith("+") else digits


@corrects("invalid_email_address", fields=(EmailAddress,))
def email_address(place: Place) -> Steps:
    """Take out of an e-mail address what does not belong to it: spaces, `mailto:`, a comma for a dot."""
    if not isinstance(place.value, str) or len(place.value) > _LONGEST:
        return []
    if place.value.strip().casefold() in _NOTHING:
        return [place.replace("", Confidence.LIKELY)]
    text = "".join(place.value.split()).strip("<>;,.").removeprefix("mailto:").replace(",", ".")
    for spelt in ("(at)", "[at]"):
        text = text.replace(spelt, "@")
    new = re.sub(r"\.{2,}", ".", re.sub(r"@+", "@", text))
    return [place.replace(new, Confidence.LIKELY)] if new != place.value and place.accepts(new) else []


@corrects("invalid_document_path", fields=(DocumentPath,))
def relative_path(place: Place) -> Steps:
    r"""Write a path with `/` between its parts, without a drive, a doubled `/` or `./`."""
    if not isinstance(place.value, str) or len(place.value) > 1024:
        return []
    path = re.sub(r"^[A-Za-z]:(?=[\\/])", "", place.value.strip()).replace("\\", "/")
    new = "/".join(part for part in path.split("/") if part not in ("", "."))
    return [place.replace(new, Confidence.LIKELY)] if new and place.accepts(new) else []
