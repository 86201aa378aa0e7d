"""Values as text: times in the viewer's zone, numbers, durations, states."""

import re
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal, InvalidOperation
from functools import cache
from importlib.metadata import version
from typing import Any
from urllib.parse import quote, urlencode
from zoneinfo import ZoneInfo, available_timezones

from babel.dates import format_date, format_datetime, format_time, format_timedelta
from babel.numbers import format_currency, format_percent
from flask import Flask, request
from markupsafe import Markup

from migration_payloads.moments import write_moments
from migration_payloads.schemas.json import encode_json
from migration_service.blueprints.console.languages import current_locale, gettext, ngettext, write_number
from migration_service.blueprints.console.ordering import KINDS, STEPS
from migration_service.blueprints.console.remedies import remedy_of
from migration_service.blueprints.console.states import describe_wave, explain_reason, name_state
from migration_service.blueprints.requests.resources import resources
from migration_service.services.batches.error_thresholds import put_in_words
from migration_service.services.batches.results.counts import count_open
from migration_service.services.batches.results.pace import round_range
from migration_service.services.batches.results.reverted import set_undone_apart
from migration_service.services.reconciliation.differences import CURRENCY, is_amount
from migration_service.states import BatchSource, Weekday

#: The cookie in which the page's script stores the browser's time zone.
ZONE_COOKIE = "console_zone"

_DAY_AND_TIME = "d MMM y HH:mm"

#: Shown if there is no value.
DASH = "\N{EN DASH}"

#: The colour of a state, by Bootstrap's names. The text has the same meaning: none depends on colour alone.
_COLOUR_OF = {
    state: colour
    for colour, states in (
        ("primary", "RUNNING IN_PROGRESS DISPATCHED RECONCILING"),
        ("success", "COMPLETED IMPORTED VALID STAGED WOULD_IMPORT SUCCEEDED DRY_RUN_SUCCEEDED"),
        ("success", "SENT DELIVERED REVERTED WENT SHRANK Ongoing ok CLEAN APPROVED ADDED WOULD_ADD"),
        ("success", "REPLACED WOULD_REPLACE"),
        ("warning", "WAITING PAUSED STALLED STARVING THROTTLED WITHDRAWN ALREADY_IMPORTED"),
        ("warning", "UNDONE KEPT GREW Paused warning unknown ALREADY_ADDED DEFERRED"),
        ("danger", "FAILED STOPPED REFUSED CAME DIFFERS wrong"),
        ("secondary", "PENDING SKIPPED CANCELLED SAME Complete PLANNED"),
    )
    for state in states.split()
}


def add_filters(app: Flask) -> None:
    """Add these functions to the templates of `app`."""
    app.jinja_env.filters.update(
        number=number,
        measured=measured,
        amount=write_amount,
        percent=percent,
        duration=duration,
        clock_in=clock_in,
        done=count_done,
        undone_apart=set_undone_apart,
        moment=moment,
        batch_name=name_batch,
        ago=ago,
        period=period,
        zoned=zoned,
        json_text=json_text,
        prose=prose,
        window=write_window,
        threshold=write_threshold,
        labelled=label_cells,
        state_name=name_state,
        step_name=lambda mode: gettext(STEPS[mode].title),
        wave_sentence=describe_wave,
        reason_sentence=explain_reason,
        colour=lambda state: _COLOUR_OF.get(str(state), "secondary"),
    )
    app.jinja_env.globals.update(
        share=share, here_with=here_with, duration_range=duration_range, viewer_zone=viewer_zone
    )
    app.jinja_env.tests["fixed_by_us"] = lambda code, ours: remedy_of(code).is_ours == ours
    app.context_processor(lambda: {"settings": resources().settings, "now": datetime.now(UTC)})
    app.jinja_env.globals["version"] = version("migration-service")


def write_threshold(values: Mapping[str, Any]) -> str:
    """Return when a batch or a wave is paused for its errors, in words."""
    words, contained = put_in_words(values)
    told = [gettext(words, **contained)]
    if values["stop_ignore_codes"]:
        told.append(
            gettext("without those with only %(codes)s", codes=", ".join(values["stop_ignore_codes"]))
        )
    if values["stop_count_warnings"]:
        told.append(
            gettext("with the warnings %(codes)s, too", codes=", ".join(values["stop_count_warnings"]))
        )
    return ", ".join(told)


def number(value: float | Decimal | None) -> str:
    """Return a number in the format of the language, or a dash."""
    return DASH if value is None else write_number(value)


def measured(value: Decimal | None, measure: str) -> str:
    """Return the value of a measure in the format of the language: an amount with its currency and cents."""
    if value is None or not is_amount(measure):
        return number(value)
    locale = current_locale()
    # At least two decimals, and more for fractions of a cent: nothing is rounded away.
    form = locale.currency_formats["standard"].pattern.replace("0.00", "0.00########")
    return str(format_currency(value, CURRENCY, form, locale=locale, currency_digits=False))


def write_amount(value: Any, *, cents: bool = False) -> str:
    """Return an amount of a payload in euros, as it is if it is no number, or a dash if there is none."""
    try:
        return measured(Decimal(str(value)) / (100 if cents else 1), "amount") if value is not None else DASH
    except InvalidOperation:
        return str(value)


def percent(part: float, whole: float) -> str:
    """Return a share in percent. It is 100 % or 0 % only for exactly all or nothing."""
    if not whole:
        return DASH
    shown = min(max(part / whole, 0.001 if part else 0.0), 1.0 if part >= whole else 0.999)
    form = "#,##0.#%" if 0 < shown < 0.1 or 0.99 < shown < 1 else "#,##0%"
    return str(format_percent(shown, form, locale=current_locale()))


def count_done(counts: Mapping[str, int]) -> int:
    """Return how many lines have an outcome, from counts by status."""
    return sum(counts.values()) - count_open(counts)


def share(part: float, whole: float) -> str:
    """Return a share as the width of a bar in percent."""
    return f"{100 * part / whole:.2f}%" if whole else "0%"


def duration(seconds: float | None) -> str:
    """Return a duration in the unit that suits it: `40 s`, `4 min`, `2 h 5 min`."""
    if seconds is None:
        return DASH
    if seconds < 100:
        return gettext("%(n)s s", n=number(round(seconds)))
    minutes = round(seconds / 60)
    if minutes < 100:
        return gettext("%(n)s min", n=number(minutes))
    if minutes < 48 * 60:
        return gettext("%(hours)s h %(minutes)s min", hours=number(minutes // 60), minutes=minutes % 60)
    return ngettext("%(num)s day", "%(num)s days", minutes // 1440)


def duration_range(low: float, high: float) -> str:
    """Return a range of durations, rounded outwards: `40 to 70 s`, `4 to 6 min`, `50 s to 3 min`."""
    low, high = round_range(low, high)
    if high < 100:
        return gettext("%(low)s to %(high)s s", low=number(low), high=number(high))
    if low >= 60 and high < 100 * 60:
        return gettext("%(low)s to %(high)s min", low=number(round(low / 60)), high=number(round(high / 60)))
    return gettext("%(low)s to %(high)s", low=duration(low), high=duration(high))


def clock_in(seconds: float) -> str:
    """Return the time of day after this many seconds, in the viewer's zone."""
    then = datetime.now(viewer_zone()) + timedelta(seconds=seconds)
    return str(format_time(then, "HH:mm", locale=current_locale()))


def moment(value: datetime | None, *, seconds: bool = False) -> str | Markup:
    """Return a time in the viewer's zone, with UTC on hover."""
    if value is None:
        return DASH
    local, locale = value.astimezone(viewer_zone()), current_locale()
    if local.date() == datetime.now(viewer_zone()).date():
        shown = format_time(local, "HH:mm:ss", locale=locale)
    else:
        shown = format_datetime(local, "d MMM y HH:mm:ss" if seconds else _DAY_AND_TIME, locale=locale)
    return _with_utc(value, shown)


def name_batch(batch: Any) -> str:
    """Return the name of a batch, or the name of its file, or its kind, and when it was made."""
    if batch.name:
        return str(batch.name)
    made = format_datetime(batch.created_at.astimezone(viewer_zone()), _DAY_AND_TIME, locale=current_locale())
    pending = (
        gettext("Pending accounts") if batch.source == BatchSource.PENDING else gettext(KINDS[batch.kind])
    )
    return f"{batch.file_name or pending}, {made}"


def zoned(value: datetime | None) -> str:
    """Return a time with its day and the viewer's zone, as text."""
    if value is None:
        return DASH
    zone = viewer_zone()
    return f"{format_datetime(value.astimezone(zone), _DAY_AND_TIME, locale=current_locale())} {zone.key}"


def period(start: datetime, end: datetime) -> Markup:
    """Return a period with the days of its start and end, in the viewer's zone, with UTC on hover."""
    zone, locale = viewer_zone(), current_locale()
    ends = (format_datetime(it.astimezone(zone), _DAY_AND_TIME, locale=locale) for it in (start, end))
    shown = map(_with_utc, (start, end), ends)
    return Markup(" {} ").format(DASH).join(shown) + f" {zone.key}"


def _with_utc(value: datetime, shown: str) -> Markup:
    utc = value.astimezone(UTC)
    title = f"{utc:%Y-%m-%d %H:%M:%S} UTC"
    return Markup('<time datetime="{}" title="{}">{}</time>').format(utc.isoformat(), title, shown)


def ago(value: datetime | None) -> str | Markup:
    """Return how long ago a time was, with UTC on hover."""
    if value is None:
        return gettext("never")
    passed = format_timedelta(value - datetime.now(UTC), add_direction=True, locale=current_locale())
    return _with_utc(value, passed)


def name_days() -> dict[str, str]:
    """Return the names of the days of the week."""
    names = current_locale().days["stand-alone"]["wide"]
    return {day: names[place] for place, day in enumerate(Weekday)}


def write_window(window: Mapping[str, Any]) -> str:
    """Return a stored window as text: its hours, zone, first day, and days unless it opens every day."""
    first_day = format_date(date.fromisoformat(window["first_day"]), "d MMM y", locale=current_locale())
    text = gettext(
        "%(start)s to %(end)s %(zone)s, from %(day)s",
        start=window["start"],
        end=window["end"],
        zone=window["time_zone"],
        day=first_day,
    )
    names = name_days()
    days = [names[day] for day in window["days"]]
    return text if len(days) == len(names) else f"{text}: {', '.join(days)}"


def json_text(value: Any) -> str:
    """Return a value as one line of JSON."""
    return encode_json(write_moments(value)).decode()


def prose(sentence: str) -> Markup:
    """Return a sentence with the text between backquotes as code."""
    pieces = enumerate(sentence.split("`"))
    return Markup("").join(Markup("<code>{}</code>").format(it) if at % 2 else it for at, it in pieces)


def here_with(file: str = "", /, **values: Any) -> str:
    """Return the address of this page, or of a file below it. Arguments are changed, or removed by None.

    It is that of the first page of a list, unless a cursor is among them.
    """
    given = {**request.args.to_dict(), "cursor": None, "part": None, **values}
    wanted = {name: value for name, value in given.items() if value is not None}
    # `url_for` would mistake some argument names in the address for its own parameters.
    return f"{quote(request.script_root + request.path + file)}?{urlencode(wanted)}".rstrip("?")


def viewer_zone() -> ZoneInfo:
    """Return the time zone of the browser, or that of the service if it is unknown."""
    name = request.cookies.get(ZONE_COOKIE, "")
    return _find_zone(name) or _find_zone(resources().settings.console_time_zone) or ZoneInfo("UTC")


def from_viewers_clock(local: datetime | None) -> datetime | None:
    """Return the moment of a local time that was entered in the viewer's zone, or None without one."""
    return local.replace(tzinfo=viewer_zone()).astimezone(UTC) if local is not None else None


@cache
def _zones() -> frozenset[str]:
    return frozenset(available_timezones())


def _find_zone(name: str) -> ZoneInfo | None:
    # Only a known name, because it becomes part of a path.
    return ZoneInfo(name) if name in _zones() else None


_COLUMN = re.compile(r'<th scope="col"[^>]*>(.*?)</th>', re.DOTALL)
_ROW = re.compile(r"<tr[ >].*?</tr>", re.DOTALL)
# A cell that spans several columns has no single name.
_CELL = re.compile(r'<(?:td|th scope="row")(?! colspan)(?=[ >])')
_TAG = re.compile(r"<[^>]*>")
_HIDDEN = 'class="visually-hidden"'


def label_cells(table: str) -> Markup:
    """Return the rows of a table with the column name on each cell. The stylesheet shows it.

    Cells get no name if their column's name is only for screen readers.
    """
    head, body = table.split("<tbody>", 1)
    names = ["" if _HIDDEN in it else _TAG.sub("", it).strip() for it in _COLUMN.findall(head)]
    labelled = _ROW.sub(lambda row: _label(row[0], names), body)
    return Markup(f"{head}<tbody>{labelled}")  # noqa: S704  # it was markup before


def _label(row: str, names: list[str]) -> str:
    following = iter(names)

    def label(cell: re.Match[str]) -> str:
        name = next(following, "")
        return f'{cell[0]} data-label="{name}"' if name else cell[0]

    return _CELL.sub(label, row)
