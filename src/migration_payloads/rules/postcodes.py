"""Dutch postcodes."""

import re

# SA, SD and SS are never used. ASCII, because IGNORECASE would otherwise accept the long s for an s.
_DUTCH_POSTCODE = re.compile(r"[1-9][0-9]{3} ?(?!S[ADS])[A-Z]{2}", re.ASCII | re.IGNORECASE)


def is_dutch_postcode(text: str) -> bool:
    """Return whether `text` is 1000 to 9999, an optional space, and two letters other than SA, SD or SS."""
    return _DUTCH_POSTCODE.fullmatch(text) is not None


def comparable_postcode(text: str) -> str:
    """Return the postcode in upper case and without spaces, so that equal postcodes compare equal."""
    return text.replace(" ", "").upper()
