"""The account number of a line, as it is read before the line is validated.

Whoever has to know the account of a line first, asks here: an upload, its chunks and their order, `delta`,
and the client. For every line that is valid, this is the number that the validation finds.
"""

import re
from decimal import Decimal
from typing import Any

import msgspec

from migration_payloads.schemas.identifiers import MAX_IDENTIFIER, identifier_fault, plain_identifier


class _Head(msgspec.Struct):
    """The member of a line that is read. The decoder skips everything else."""

    external_account_number: Any = None


class _RawHead(msgspec.Struct):
    external_account_number: msgspec.Raw = msgspec.Raw(b"null")


_decode = msgspec.json.Decoder(_Head).decode
_decode_raw = msgspec.json.Decoder(_RawHead).decode
# How most lines begin. A line that is no JSON further on is still one of this account.
_BEGINNING = re.compile(rb'\{\s*"external_account_number"\s*:\s*"([^"\\]+)"')
# The number anywhere in a line that is no JSON.
_MEMBER = re.compile(rb'"external_account_number"\s*:\s*("(?:[^"\\]|\\.)*"|-?[0-9][0-9.eE+-]*)')
# A number as a spreadsheet writes it.
_WHOLE = re.compile(r"^([0-9]+)\.0+$")
_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


def find_number(text: bytes) -> str | None:
    """Return the external account number of a line, or None if it has none that is valid."""
    try:
        number = _decode(text).external_account_number
    except _UNREADABLE:
        found = _BEGINNING.match(text)
        number = found and found[1].decode(errors="replace")
    if not isinstance(number, str) or not 0 < len(number) <= MAX_IDENTIFIER or identifier_fault(number):
        return None
    return number


def find_meant_number(text: bytes) -> str | None:
    """Return the number that a line means, even if it is not valid as it is written.

    That is a number such as 1234.0, even as text, or a text with blanks around it or invisible characters.
    The line need not be JSON.
    """
    try:
        raw = bytes(_decode_raw(text).external_account_number)
    except _UNREADABLE:
        found = _MEMBER.search(text)
        raw = found[1] if found else b"null"
    try:
        value = _read_number(raw) if raw[:1] in b"-0123456789" else msgspec.json.decode(raw)
    except (*_UNREADABLE, ArithmeticError):
        return None
    plain = plain_identifier(value) if isinstance(value, str) else ""
    return _WHOLE.sub(r"\1", plain) or None


def _read_number(raw: bytes) -> str:
    number = Decimal(raw.decode())
    if abs(number.adjusted()) > MAX_IDENTIFIER:
        return ""
    whole = number.to_integral_value()
    return format(whole if number == whole else number, "f")
