"""Dutch postcodes."""

import re

# SA, SD and SS are never given out. ASCII, because IGNORECASE takes the long s for an s otherwise.
_DUTCH_POSTCODE = re.compile(r"[1-9][0-9]{3} ?(?!S[ADS])[A-Z]{2}", re.ASCII | re.IGNORECASE)


def is_dutch_postcode(text: str) -> bool:
    """Whether `text` is 1000 to 9999, perhaps a space, and two letters that are not SA, SD or SS."""
    return _DUTCH_POSTCODE.fullmatch(text) is not None


def comparable_postcode(text: str) -> str:
    """The postcode in upper case and without spaces, as two that mean the same are equal."""
    return text.replace(" ", "").upper()
