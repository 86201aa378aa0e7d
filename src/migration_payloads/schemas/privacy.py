"""What the fields of payloads are to a person. This is the only list of what is personal.

- `personal`: it says who somebody is, where they live, how they are reached, or what was written about them.
  The console masks it, messages do not repeat it, and samples have something else instead.
- `identifying`: the number of an account, a connection, a document or a booking. People search by it, so that
  the console shows it. Samples have another number instead.
- Neither: codes, amounts, quantities and dates. Even so, a text that is not written as they are may be a
  person's.

`erased` says whether an erasure removes the value from a created account. By default, it removes what is
personal or identifying. It removes whole rows of customers and supply addresses in any case.
"""

import re
from collections.abc import Iterator
from decimal import Decimal
from typing import Any, cast

from marshmallow import Schema
from marshmallow.fields import Field, Nested

from migration_payloads.schemas.fields import Choice, Coded, Flag, Text, Values

# Codes have neither spaces nor small letters. Amounts, dates and times have no letters but T and Z.
_CODE = re.compile(r"[A-Z0-9][A-Z0-9._:/+-]*", re.ASCII)
_DIGITS = re.compile(r"[0-9+][0-9._:/+-]*", re.ASCII)
_TELEPHONE = re.compile(r"\+[0-9]{7,15}|(?:0[0-9]|31)[0-9]{7,13}", re.ASCII)
_NUMERIC = re.compile(r"[0-9TZ.:+-]+", re.ASCII)


def walk_fields(schema: Schema, above: str = "") -> Iterator[tuple[str, Coded]]:
    """Yield each field of a schema that is not an object, with its path: names with dots between them."""
    for name, field in schema.fields.items():
        if isinstance(field, Nested):
            yield from walk_fields(field.schema, f"{above}{name}.")
        else:
            yield f"{above}{name}", cast(Coded, field.inner if isinstance(field, Values) else field)


def has_telephone_number(text: str) -> bool:
    """Return whether digits in a text read as a telephone number, even with dots, dashes or slashes in it."""
    runs = _DIGITS.findall(text)
    parts = (part for run in runs for marks in ("[/:]", "[._:/-]") for part in re.split(marks, run))
    return any(map(_is_telephone_number, (*runs, *parts)))


def _is_telephone_number(text: str) -> bool:
    # The register 0-1:24.2.1.255 begins with a zero alone, and no telephone number does.
    if not text.startswith(("+", "31", *(f"0{it}" for it in range(10)))):
        return False
    digits = re.sub("[^0-9]", "", text)
    return _TELEPHONE.fullmatch(f"+{digits}" if text[0] == "+" else digits) is not None


def is_nobodys(field: Field[Any], value: Any) -> bool:
    """Return whether a value of a field is surely no person's: a code, an amount, a date or the like."""
    if getattr(field, "personal", True) or getattr(field, "identifying", True):
        return False
    if isinstance(field, Flag):
        return isinstance(value, bool) or str(value) in ("0", "1") or field.is_word(str(value))
    if isinstance(field, Text | Choice):
        return (
            isinstance(value, str) and _CODE.fullmatch(value) is not None and not has_telephone_number(value)
        )
    text = format(value, "f") if isinstance(value, Decimal) else str(value)
    return _NUMERIC.fullmatch(text) is not None
