"""The normal form of identifiers, in which two identifiers that look the same are the same."""

import re
import unicodedata

from migration_payloads.errors import ErrorItem, RequestFailedValidationError
from migration_payloads.schemas.messages import Message

#: Characters of an identifier.
MAX_IDENTIFIER = 128
# Characters that change the direction of the text after them.
_BIDIRECTIONAL = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
# Invisible characters outside the category of format characters: joiners, fillers, variation selectors.
_INVISIBLE = frozenset(
    "\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u3164\uffa0\u2800"
) | frozenset(map(chr, (*range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0))))

# What the bytes 0x80 to 0xBF of UTF-8 become in Windows-1252, or in Latin-1, after the first byte of a letter
# of a European language, of a quotation mark, a dash or the sign of the euro. A quotation mark or a dash may
# stand behind a capital Ä or Å of Swedish.
_UNDEFINED = b"\x81\x8d\x8f\x90\x9d"
_BYTES = {bytes([it]).decode("cp1252"): it for it in range(0x80, 0xA0) if it not in _UNDEFINED}
_CONTINUED = "\x80-\xbf" + re.escape("".join(_BYTES))
_UNPUNCTUATED = re.sub("[\u2019\u201d\u2013\u2014\u2026]", "", _CONTINUED)
_READ_AS_SEVERAL = re.compile(
    f"[\xc2\xc3][{_CONTINUED}]|[\xc4\xc5][{_UNPUNCTUATED}]|\xe2[\x80\x82\u20ac\u201a][{_CONTINUED}]"
)


# Characters outside the category of spaces that part words: ends of lines, separators, and wide blanks.
_PARTING = re.compile(r"[\r\n\t\v\f\x1c-\x1f\x85\u2028\u2029\u2800\u3164\uffa0]+")

#: What to do about it.
READ_AS_SEVERAL = "This has a letter that was read as several: read the file as UTF-8."

#: Replaces each dash that looks like a hyphen, or nearly, by one.
DASHES = str.maketrans(dict.fromkeys("\u02d7\u2010\u2011\u2012\u2013\u2014\u2015\u2043\u2212", "-"))


def identifier_fault(text: str) -> Message | None:
    """Return why `text` is not an identifier in normal form, or None if it is.

    Inner spaces, slashes and letters of any script are allowed, but no dash besides the hyphen, and no digit
    besides 0 to 9, which mean the same number.
    """
    if text.isascii():
        return name_fault(text)
    if mend_encoding(text) != text:
        return Message(READ_AS_SEVERAL, "invalid_characters")
    for character in text:
        if ord(character) in DASHES:
            detail = f"This has {_name(character)}, which looks like a hyphen: send '-' instead."
            return Message(detail, "compatibility_characters")
        if character == "\ufffd":
            detail = "This has U+FFFD in place of a letter that is lost: read the file in its own encoding."
            return Message(detail, "invalid_characters")
        if character.isdecimal() and not character.isascii():
            detail = f"This has {_name(character)}: send '{unicodedata.decimal(character)}' instead."
            return Message(detail, "compatibility_characters")
    return name_fault(text)


def name_fault(text: str) -> Message | None:
    """Return why `text` is not a name in normal form, which may have a dash, or None if it is."""
    if text.isascii() and text.isprintable():
        plain = text[:1] != " " and text[-1:] != " "
        return None if plain else _outer_space(text)
    for character in text:
        if fault := _character_fault(character):
            return fault
    if text != text.strip():
        return _outer_space(text)
    composed = unicodedata.normalize("NFC", text)
    if composed != text:
        place = next((i for i, pair in enumerate(zip(text, composed, strict=False)) if pair[0] != pair[1]), 0)
        detail = f"This is not in normal form C at character {place + 1}: send composed characters."
        return Message(detail, "not_normalised")
    for character in text:
        plain_form = unicodedata.normalize("NFKC", character)
        if plain_form != character:
            sent = plain_form.translate(DASHES)
            detail = f"This has {_name(character)}, a compatibility form: send {sent!r} instead."
            return Message(detail, "compatibility_characters")
    return None


def plain_identifier(text: str) -> str:
    """Return the identifier that is meant: in normal form, without outer spaces and invisible characters."""
    if text.isascii() and text.isprintable():
        return text.strip()
    return plain_form("".join(it for it in text if not _character_fault(it))).strip()


def plain_form(text: str) -> str:
    """Return `text` without compatibility forms, with the digits 0 to 9, and with hyphens for dashes."""
    digits = "".join(str(unicodedata.decimal(it)) if it.isdecimal() else it for it in text)
    return unicodedata.normalize("NFKC", digits).translate(DASHES)


def require_identifier(text: str, attr: str) -> None:
    """Raise RequestFailedValidationError if `text`, found at `attr`, is not a normal identifier."""
    fault = identifier_fault(text)
    if len(text) > MAX_IDENTIFIER:
        fault = Message(f"This has more than {MAX_IDENTIFIER} characters: {len(text)}.", "max_length")
    if not text:
        fault = Message("This may not be empty.", "blank")
    if fault:
        raise RequestFailedValidationError(errors=[ErrorItem(fault.code, str(fault), attr)])


def find_invisible(text: str) -> str | None:
    """Return the name of the first invisible character of `text`, or None. Spaces count as visible."""
    if text.isascii() and text.isprintable():
        return None
    return next((_name(character) for character in text if _character_fault(character)), None)


def find_hidden(text: str) -> str | None:
    """Return the name of the first character of `text` that is invisible or another space, or None."""
    if text.isascii() and text.isprintable():
        return None
    return next((_name(it) for it in text if _character_fault(it) or (it.isspace() and it != " ")), None)


def without_invisible(text: str) -> str:
    """Return `text` without invisible characters. What parts words, such as a line feed, becomes a space."""
    return "".join(it for it in _PARTING.sub(" ", text) if not _character_fault(it))


def without_hidden(text: str) -> str:
    """Return `text` without what cannot be seen. A line feed, a tab and any other space become a space."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(" " if it.isspace() else it for it in without_invisible(text))


def mend_encoding(text: str) -> str:
    """Return `text` with each character that was read as several, such as `Ã¼` for `ü`, as one.

    That happens if UTF-8 is read as one of the encodings that have a byte for each character.
    """
    if text.isascii():
        return text
    while (mended := _READ_AS_SEVERAL.sub(_read_as_one, text)) != text:
        text = mended
    return text


def _read_as_one(found: re.Match[str]) -> str:
    try:
        return bytes(_BYTES.get(it, ord(it) & 0xFF) for it in found[0]).decode()
    except UnicodeDecodeError:
        return found[0]


def _character_fault(character: str) -> Message | None:
    if character.isprintable() and character not in _INVISIBLE:
        return None
    if character in _BIDIRECTIONAL:
        detail = f"This has {_name(character)}, which changes the direction of text: remove it."
        return Message(detail, "bidirectional_characters")
    if character in _INVISIBLE or unicodedata.category(character) == "Cf":
        return Message(f"This has {_name(character)}, which is invisible: remove it.", "invisible_characters")
    if unicodedata.category(character) == "Zs":
        return None  # a leading or trailing space, or a compatibility form of the space
    return Message(f"This has {_name(character)}, which does not print: remove it.", "invalid_characters")


def _outer_space(text: str) -> Message | None:
    place = "at its start" if text != text.lstrip() else "at its end"
    return Message(f"This has a space {place}: remove it.", "outer_spaces")


def _name(character: str) -> str:
    name = unicodedata.name(character, "")
    return f"U+{ord(character):04X} {name}".strip()
