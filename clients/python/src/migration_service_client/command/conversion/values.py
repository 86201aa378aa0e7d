"""The text of cells becomes a value of the payload's field."""

import re
from collections.abc import Callable, Mapping
from datetime import datetime, time
from decimal import Context, Decimal, Inexact
from functools import lru_cache
from typing import Any

from marshmallow import ValidationError
from marshmallow.fields import Field

from migration_payloads.errors import quoted
from migration_payloads.schemas.fields import (
    Choice,
    Day,
    Ean,
    Flag,
    Identifier,
    LocalMoment,
    Number,
    NumberText,
    WholeNumber,
)
from migration_service_client.command.conversion.mapping import ABSENT, Format
from migration_service_client.command.conversion.problems import CellError, Code

_Convert = Callable[[str], Any]
_EXACT = Context(prec=100, traps=[Inexact])
#: Values that columns repeat, as dates and codes do, are converted once.
_KEPT = 1024
_SPREADSHEET = re.compile(r"\d([.,]\d+)?[Ee]\+\d+")
_DATE_WORDS = {
    "YYYY": r"(?P<year>\d{4})",
    "MM": r"(?P<month>\d\d)",
    "M": r"(?P<month>\d\d?)",
    "DD": r"(?P<day>\d\d)",
    "D": r"(?P<day>\d\d?)",
    "hh": r"(?P<hour>\d\d)",
    "mm": r"(?P<minute>\d\d)",
    "ss": r"(?P<second>\d\d)",
}
_DATE_PARTS = ("year", "month", "day", "hour", "minute", "second")
_DATE_WORD = re.compile("|".join(_DATE_WORDS) + "|[A-Za-z]+|.", re.DOTALL)


def converter(field: Field[Any], form: Format, times: Decimal | None) -> _Convert:
    """Return the function that converts a text, which is not empty, for a field. It raises CellError.

    Numbers are multiplied by `times`, exactly.
    """
    match field:
        case Day() | LocalMoment():
            return lru_cache(_KEPT)(_date(field, form))
        case Number() | WholeNumber():
            return _number(field, form, times)
        case Flag() | Choice():
            return lru_cache(_KEPT)(_word(field))
        case Identifier() | Ean():
            return _identifier
    return str


def coded(field: Field[Any], codes: Mapping[str, Any], name: str) -> _Convert:
    """Return the function that replaces a code by its value. An empty value means that there is none."""

    def convert(text: str) -> Any:
        if text not in codes:
            known = ", ".join(list(codes)[:20])
            raise CellError(
                Code.UNKNOWN_CODE,
                f"{_found(field, text)} is not in {name}: {known}. Add it there, or correct the cell.",
            )
        return ABSENT if codes[text] == "" else codes[text]

    return convert


def date_form(form: str) -> re.Pattern[str]:
    """Return the pattern of a form such as DD-MM-YYYY. Raise ValueError if it is none."""
    words = _DATE_WORD.findall(form)
    if unknown := [it for it in words if it.isalpha() and it not in {*_DATE_WORDS, "T"}]:
        raise ValueError(f"{unknown[0]!r} has no meaning in a form of dates")
    try:
        pattern = re.compile("".join(_DATE_WORDS.get(it, re.escape(it)) for it in words), re.ASCII)
    except re.error:
        raise ValueError("it names a part twice") from None
    if not {"year", "month", "day"} <= set(pattern.groupindex):
        raise ValueError("it lacks YYYY, MM or DD")
    return pattern


def _found(field: Any, text: str) -> str:
    return "This" if getattr(field, "personal", False) else quoted(text)


def _date(field: Field[Any], form: Format) -> _Convert:
    patterns = [date_form(it) for it in form.dates]

    def convert(text: str) -> str:
        for pattern in patterns:
            if (found := pattern.fullmatch(text)) is None:
                continue
            try:
                parts = found.groupdict("0")
                year, month, day, hour, minute, second = (int(parts.get(it, 0)) for it in _DATE_PARTS)
                moment = datetime(year, month, day, hour, minute, second)
            except ValueError:
                continue
            if isinstance(field, LocalMoment):
                return moment.isoformat(timespec="seconds")
            if moment.time() == time():
                return moment.date().isoformat()
        expected = " or ".join(form.dates)
        raise CellError(Code.BAD_DATE, f"{_found(field, text)} is not a date of the form {expected}.")

    return convert


def _number(field: Field[Any], form: Format, times: Decimal | None) -> _Convert:
    gap = r"[ \u00a0\u202f]" if form.thousands == " " else re.escape(form.thousands)
    whole = rf"\d+|\d{{1,3}}(?:{gap}\d{{3}})+" if gap else r"\d+"
    pattern = re.compile(
        rf"(?P<sign>[+-]?)(?P<whole>{whole})(?:{re.escape(form.decimal)}(?P<rest>\d+))?(?P<after>-?)",
        re.ASCII,
    )
    example = f"-1{form.thousands}234{form.decimal}50"

    def convert(text: str) -> Any:
        found = pattern.fullmatch(text)
        if found is None or (found["sign"] and found["after"]):
            raise CellError(Code.BAD_NUMBER, f"{_found(field, text)} is not a number of the form {example}.")
        digits = found["whole"] if found["whole"].isdigit() else re.sub(r"\D", "", found["whole"])
        number = Decimal(f"{found['after'] or found['sign']}{digits}.{found['rest'] or ''}")
        if times is not None:
            number = _plain(_EXACT.multiply(number, times))
        if isinstance(field, NumberText):
            return format(number, "f")
        if isinstance(field, Number):
            return number
        if number != number.to_integral_value():
            raise CellError(Code.BAD_NUMBER, f"{_found(field, text)} is not a whole number.")
        return int(number)

    return convert


def _plain(number: Decimal) -> Decimal:
    """Return a whole number without decimals, because 49.28 times 100 is 4928, and zero without a sign."""
    whole = number.to_integral_value()
    return (whole if whole == number else number) or Decimal(0)


def _word(field: Field[Any]) -> _Convert:
    code = Code.BAD_BOOLEAN if isinstance(field, Flag) else Code.UNKNOWN_CODE

    def convert(text: str) -> Any:
        try:
            return field.deserialize(text)
        except ValidationError as error:
            raise CellError(code, f"{error.messages[0]} Give the field `codes`.") from None

    return convert


def _identifier(text: str) -> str:
    if _SPREADSHEET.fullmatch(text):
        raise CellError(
            Code.SPREADSHEET_NUMBER,
            f"{quoted(text)} is what a spreadsheet makes of a long number. Export the column as text.",
        )
    return text
