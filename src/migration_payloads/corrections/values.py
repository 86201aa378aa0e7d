"""Corrections of dates, times, numbers and flags, and of values in the wrong form of JSON."""

import re
from datetime import date
from decimal import ROUND_HALF_EVEN, Decimal
from typing import Any

from migration_payloads.corrections.correction import corrects
from migration_payloads.corrections.place import Place, Steps, like, number
from migration_payloads.errors import Confidence
from migration_payloads.schemas.fields import (
    Day,
    Flag,
    LocalMoment,
    Number,
    NumberText,
    Objects,
    Text,
    Values,
    WholeNumber,
)
from migration_payloads.schemas.numbers import MAX_FRACTION_DIGITS

_DAY_FIRST = re.compile(r"(\d{1,2})([-./ ])(\d{1,2})\2(\d{4})", re.ASCII)
_YEAR_FIRST = re.compile(r"(\d{4})([-./ ]?)(\d{1,2})\2(\d{1,2})", re.ASCII)
_MIDNIGHT = re.compile(r"[T ]00:00(:00(\.0{1,6})?)?", re.ASCII)
_TIME = re.compile(r"[T ](\d\d:\d\d)(:\d\d(?:\.\d{1,6})?)?(Z|[+-]\d\d:?\d\d)?", re.ASCII)
_MONEY = re.compile(r"(?:EUR|€)|[\s\u00a0\u202f']", re.IGNORECASE)
_WITH_COMMA = re.compile(r"[+-]?\d{1,3}(?:\.\d{3})+,\d{1,10}|[+-]?\d{1,20},\d{1,10}", re.ASCII)
_WITH_POINT = re.compile(r"[+-]?\d{1,3}(?:,\d{3})+\.\d{1,10}|[+-]?\d{1,20}(?:\.\d{1,10})?", re.ASCII)
_WORDS = {"ja": True, "j": True, "waar": True, "nee": False, "n": False, "onwaar": False}
_SMALLEST = Decimal(10) ** -MAX_FRACTION_DIGITS


@corrects("invalid_date", fields=(Day,))
def date_in_iso(place: Place) -> Steps:
    """Write a date as YYYY-MM-DD: from DD-MM-YYYY, YYYYMMDD or with other separators.

    It is only likely if the day might be the month.
    """
    if not isinstance(place.value, str) or len(place.value) > 40:
        return []
    found = _read_date(_MIDNIGHT.sub("", place.value.strip()))
    return [place.replace(found[0].isoformat(), found[1])] if found else []


def _read_date(text: str) -> tuple[date, Confidence] | None:
    sure = Confidence.CERTAIN
    if match := _YEAR_FIRST.fullmatch(text):
        year, separator, month, of_month = match.groups()
        if not separator and len(month + of_month) != 4:
            return None
    elif match := _DAY_FIRST.fullmatch(text):
        of_month, _, month, year = match.groups()
        if int(of_month) <= 12 and int(of_month) != int(month):
            sure = Confidence.LIKELY
    else:
        return None
    try:
        return date(int(year), int(month), int(of_month)), sure
    except ValueError:
        return None


@corrects("invalid_datetime", fields=(LocalMoment,))
def time_in_iso(place: Place) -> Steps:
    """Write a local time as YYYY-MM-DDTHH:MM:SS: a date begins at midnight, and a zone is left out."""
    if not isinstance(place.value, str) or len(place.value) > 40:
        return []
    text = place.value.strip()
    time = _TIME.search(text)
    found = _read_date(text[: time.start()] if time else text)
    if found is None or (time and time.end() != len(text)):
        return []
    zone = time[3] if time else None
    sure = Confidence.GUESS if zone == "Z" else Confidence.LIKELY if zone else found[1]
    new = f"{found[0].isoformat()}T" + (f"{time[1]}{time[2] or ':00'}" if time else "00:00:00")
    return [place.replace(new, sure)] if place.accepts(new) else []


@corrects("invalid", fields=(Number, WholeNumber))
def decimal_point(place: Place) -> Steps:
    """Write a number with a decimal point, without separators of thousands, spaces or the sign of the euro.

    It is a guess if the comma might separate thousands, as in 1,234.
    """
    if not isinstance(place.value, str) or len(place.value) > 40:
        return []
    text = _MONEY.sub("", place.value)
    sure = Confidence.CERTAIN
    if text.endswith("-") and text[:1] not in "+-":
        text, sure = f"-{text[:-1]}", Confidence.LIKELY
    if _WITH_COMMA.fullmatch(text):
        if "." not in text and len(text.rpartition(",")[2]) == 3:
            sure = Confidence.GUESS
        text = text.replace(".", "").replace(",", ".")
    elif _WITH_POINT.fullmatch(text):
        text = text.replace(",", "")
    else:
        return []
    new: Any = text if isinstance(place.field, NumberText) else Decimal(text)
    if isinstance(place.field, WholeNumber) and new == new.to_integral_value():
        new = int(new)
    return [place.replace(new, sure)] if place.accepts(new) else []


@corrects("out_of_range", fields=(Number,))
def ten_decimals(place: Place) -> Steps:
    """Round a number to ten digits after the decimal point, which is all that a calculation left behind."""
    found = number(place.value)
    if found is None:
        return []
    new = found.quantize(_SMALLEST, rounding=ROUND_HALF_EVEN).normalize()
    new = like(new if new.as_tuple().exponent <= 0 else new.quantize(Decimal(1)), place.value)  # type: ignore[operator]
    return [place.replace(new, Confidence.CERTAIN)] if place.accepts(new) else []


@corrects("invalid", fields=(Flag,))
def true_or_false(place: Place) -> Steps:
    """Write a Dutch yes or no as true or false."""
    found = _WORDS.get(place.value.strip().lower()) if isinstance(place.value, str) else None
    if found is None and isinstance(place.value, str):
        stripped = place.value.strip()
        return [place.replace(stripped, Confidence.CERTAIN)] if place.accepts(stripped) else []
    return [] if found is None else [place.replace(found, Confidence.CERTAIN)]


@corrects("invalid", fields=(Text,))
def number_as_text(place: Place) -> Steps:
    """Put a whole number into quotation marks. Zeros in front of it may be lost already."""
    if isinstance(place.value, bool) or not isinstance(place.value, int):
        return []
    new = str(place.value)
    return [place.replace(new, Confidence.LIKELY)] if place.accepts(new) else []


@corrects("not_a_list", fields=(Objects, Values))
def list_of_one(place: Place) -> Steps:
    """Put a single object, or a single value, into a list."""
    if place.value is None or isinstance(place.value, list):
        return []
    new = [place.value]
    return [place.replace(new, Confidence.LIKELY)] if place.accepts(new) else []


@corrects("null", "blank", "not_a_list", "not_a_dict")
def no_value(place: Place) -> Steps:
    """Leave out a member that is null, or text of nothing but spaces."""
    field = place.field
    is_empty = place.value is None or (isinstance(place.value, str) and not place.value.strip())
    if field is None or not is_empty or isinstance(place.name, int):
        return []
    if field.required:
        return [place.replace("", Confidence.CERTAIN)] if getattr(field, "blank", False) else []
    return [place.remove(Confidence.CERTAIN)]
