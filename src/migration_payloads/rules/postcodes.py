"""Dutch postcodes."""

import re

# SA, SD and SS are never used. ASCII, because IGNORECASE would otherwise accept the long s for an s.
_DUTCH_POSTCODE = re.compile(r"[1-9][0-9]{3} ?(?!S[ADS])[A-Z]{2}", re.ASCII | re.IGNORECASE)


def is_dutch_postcode(text: str) -> bool:
    """Return whether `text` is 1000 to 9999, an optional space, and two letters other than SA, SD or SS."""
    return _DUTCH_POSTCODE.fullmatch(text) is not None


def may_be_foreign(text: str) -> bool:
    """Return whether `text` may be the postcode of another country: letters and at least one digit, 3 to 10.

    Four digits and two letters are Dutch, whatever they are.
    """
    plain = re.sub(r"[ \-]", "", text).upper()
    return (
        3 <= len(plain) <= 10
        and plain.isascii()
        and plain.isalnum()
        and any(map(str.isdigit, plain))
        and re.fullmatch(r"(?:NL)?[0-9]{4}[A-Z]{2}", plain) is None
    )


def comparable_postcode(text: str) -> str:
    """Return the postcode in upper case and without spaces, so that equal postcodes compare equal."""
    return text.replace(" ", "").upper()
