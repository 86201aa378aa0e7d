"""Corrections of dates, times, numbers and flags, and of values in the wrong form of JSON."""

import re
from datetime import date, datetime, timedelta
from decimal import ROUND_HALF_EVEN, Decimal
from typing import Any
from zoneinfo import ZoneInfo

from migration_payloads.corrections.correction import corrects
from migration_payloads.corrections.place import Place, Steps, is_noise, lesser, like, number
from migration_payloads.errors import Confidence
from migration_payloads.moments import DEFAULT_TIME_ZONE
from migration_payloads.schemas import fields
from migration_payloads.schemas.numbers import MAX_FRACTION_DIGITS

_DAY_FIRST = re.compile(r"(\d{1,2})([-./ ])(\d{1,2})\2(\d{4})", re.ASCII)
_YEAR_FIRST = re.compile(r"(\d{4})([-./ ]?)(\d{1,2})\2(\d{1,2})", re.ASCII)
_MIDNIGHT = re.compile(r"[T ]00:00(:00(\.0{1,6})?)?", re.ASCII)
_TIME = re.compile(r"[T ](\d\d:\d\d)(:\d\d(?:\.\d{1,6})?)?(Z|[+-]\d\d:?\d\d)?", re.ASCII)
_CURRENCY = re.compile(r"^\s*([+-]?)\s*(?:EUR|€)?\s*|\s*(?:EUR|€)?\s*$", re.IGNORECASE)
_THOUSANDS = re.compile(r"([+-]?\d{1,3})((?:[\s\u00a0\u202f']\d{3})+)(?=[.,-]|$)")
_WITH_COMMA = re.compile(r"[+-]?\d{1,3}(?:\.\d{3})+,\d{1,10}|[+-]?\d{1,20},\d{1,10}", re.ASCII)
_WITH_POINT = re.compile(r"[+-]?\d{1,3}(?:,\d{3})+\.\d{1,10}|[+-]?\d{1,20}(?:\.\d{1,10})?", re.ASCII)
_WORDS = {"ja": True, "j": True, "waar": True, "nee": False, "n": False, "onwaar": False}
_SMALLEST = Decimal(10) ** -MAX_FRACTION_DIGITS


@corrects("invalid_date", fields=(fields.Day,), longest=40)
def date_in_iso(place: Place) -> Steps:
    """Write a date as YYYY-MM-DD: from DD-MM-YYYY, YYYYMMDD or with other separators.

    It is a guess if the day might be the month.
    """
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
            sure = Confidence.GUESS
    else:
        return None
    try:
        return date(int(year), int(month), int(of_month)), sure
    except ValueError:
        return None


@corrects("invalid_datetime", fields=(fields.LocalMoment,), longest=40)
def time_in_iso(place: Place) -> Steps:
    """Write a local time as YYYY-MM-DDTHH:MM:SS. A date begins at midnight, and 24:00 is the next midnight.

    A time with the offset of the Netherlands is likely the local one. With another offset it is converted,
    which is a guess, because the supplier may have another time zone.
    """
    text = place.value.strip()
    time = _TIME.search(text)
    found = _read_date(text[: time.start()] if time else text)
    if found is None or (time and time.end() != len(text)):
        return []
    if time is None:
        # A period that ends with a day does not end when the day begins.
        sure = Confidence.GUESS if place.name == "end_at" else found[1]
        return [place.replace(f"{found[0].isoformat()}T00:00:00", sure)]
    try:
        new, sure = _read_time(found[0], time)
    except (OverflowError, ValueError):
        return []
    return [place.replace(new, lesser(sure, found[1]))] if place.accepts(new) else []


def _read_time(on: date, time: re.Match[str]) -> tuple[str, Confidence]:
    """Return a local time, and how sure it is. Raise ValueError if there is no such time."""
    clock, zone = f"{time[1]}{time[2] or ':00'}", time[3]
    if re.fullmatch(r"24:00:00(\.0+)?", clock):
        on, clock = on + timedelta(days=1), "00:00:00"
    text = f"{on.isoformat()}T{clock}"
    if not zone:
        return text, Confidence.CERTAIN
    local = datetime.fromisoformat(f"{text}{zone}").astimezone(ZoneInfo(DEFAULT_TIME_ZONE))
    if local.replace(tzinfo=None) == datetime.fromisoformat(text):
        return text, Confidence.LIKELY
    return local.replace(tzinfo=None).isoformat(), Confidence.GUESS


@corrects("invalid", fields=(fields.Number, fields.WholeNumber), longest=40)
def decimal_point(place: Place) -> Steps:
    """Write a number with a decimal point, without separators of thousands, spaces or the sign of the euro.

    It is a guess if the comma might separate thousands, as in 1,234, or a space two numbers, as in 1 234.
    """
    text = _CURRENCY.sub(lambda found: found[1] or "", place.value)
    sure = Confidence.CERTAIN
    if grouped := _THOUSANDS.match(text):
        sure = Confidence.CERTAIN if "," in text or "." in text else Confidence.GUESS
        text = re.sub(r"[\s\u00a0\u202f']", "", grouped[0]) + text[grouped.end() :]
    if text.endswith("-") and text[:1] not in "+-":
        text, sure = f"-{text[:-1]}", lesser(sure, Confidence.LIKELY)
    if _WITH_COMMA.fullmatch(text):
        if "." not in text and len(text.rpartition(",")[2]) == 3:
            sure = Confidence.GUESS
        text = text.replace(".", "").replace(",", ".")
    elif _WITH_POINT.fullmatch(text):
        text = text.replace(",", "")
    else:
        return []
    new: Any = text if isinstance(place.field, fields.NumberText) else Decimal(text)
    if isinstance(place.field, fields.WholeNumber) and new == new.to_integral_value():
        new = int(new)
    return [place.replace(new, sure)] if place.accepts(new) else []


@corrects("out_of_range", fields=(fields.Number,))
def ten_decimals(place: Place) -> Steps:
    """Round a number to ten digits after the decimal point.

    It is a guess unless the rest is what a calculation left behind.
    """
    found = number(place.value)
    if found is None:
        return []
    new = found.quantize(_SMALLEST, rounding=ROUND_HALF_EVEN).normalize()
    new = like(new if new.as_tuple().exponent <= 0 else new.quantize(Decimal(1)), place.value)  # type: ignore[operator]
    sure = Confidence.CERTAIN if is_noise(found, Decimal(str(new))) else Confidence.GUESS
    return [place.replace(new, sure)] if place.accepts(new) else []


@corrects("invalid", fields=(fields.Flag,))
def true_or_false(place: Place) -> Steps:
    """Write a Dutch yes or no as true or false."""
    found = _WORDS.get(place.value.strip().lower()) if isinstance(place.value, str) else None
    if found is None and isinstance(place.value, str):
        stripped = place.value.strip()
        return [place.replace(stripped, Confidence.CERTAIN)] if place.accepts(stripped) else []
    return [] if found is None else [place.replace(found, Confidence.CERTAIN)]


@corrects("invalid", fields=(fields.Text,))
def number_as_text(place: Place) -> Steps:
    """Put a whole number into quotation marks. Zeros in front of it may be lost already.

    Above 2^53 it is a guess: many programs round such a number.
    """
    if isinstance(place.value, bool) or not isinstance(place.value, int):
        return []
    new = str(place.value)
    sure = Confidence.LIKELY if abs(place.value) <= 2**53 else Confidence.GUESS
    return [place.replace(new, sure)] if place.accepts(new) else []


@corrects("not_a_list", fields=(fields.Objects, fields.Values))
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
