"""The request for a plan of waves."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, time
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from migration_service.errors import ErrorItem, RequestFailedValidationError
from migration_service.services.batches.error_thresholds import ErrorThreshold, read_threshold
from migration_service.services.waves.windows import Window
from migration_service.states import Weekday

#: The largest number of waves in a plan.
MAX_WAVES = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class WaveOrder:
    """The request for a wave. Without any of the first three it takes the remaining accounts."""

    #: The number of accounts to draw at random from all strata, or to take next, or the numbers of them.
    sample: int | None = None
    size: int | None = None
    accounts: Sequence[str] | None = None
    name: str | None = None
    #: None if it may run at any time. The first wave is then started by hand.
    window: Window | None = None
    lines_per_minute: int | None = None
    error_threshold: ErrorThreshold | None = None
    #: Whether the next wave starts automatically if this one is clean, or None for the plan's default.
    continue_if_clean: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanOrder:
    """The request for a plan, with its waves in order."""

    operations_team_name: str
    waves: Sequence[WaveOrder]
    continue_if_clean: bool
    name: str | None = None
    include_older_versions: bool = False
    #: The seed of the random draw, or None to choose one.
    seed: int | None = None
    api_key_id: int | None = None


#: The members of a change that are not read further.
_AS_GIVEN = ("lines_per_minute", "continue_if_clean", "operations_team_name")
_CHOICES = ("sample", "size", "accounts", "rest")


def read_plan(body: Mapping[str, Any], *, now: datetime, api_key_id: int | None = None) -> PlanOrder:
    """Return the order in a body loaded by `WavePlanBodySchema`.

    The default first day of a window is that of `now`. Raise RequestFailedValidationError with all errors.
    """
    errors: list[ErrorItem] = []
    if len(body["waves"]) > MAX_WAVES:
        too_many = ErrorItem("too_many_items", f"A plan has at most {MAX_WAVES} waves.", "waves")
        raise RequestFailedValidationError(errors=[too_many])
    last = len(body["waves"]) - 1
    waves = []
    for index, given in enumerate(body["waves"]):
        at = f"waves.{index}"
        errors += _faults_of_choice(given, at, is_first=index == 0, is_last=index == last)
        whole = {name: body[name] for name in ("window", "lines_per_minute", "brake") if name in body} | given
        waves.append(_read_wave(whole, at if "window" in given else "", at, errors, now))
    if errors:
        raise RequestFailedValidationError(errors=list({(it.code, it.attr): it for it in errors}.values()))
    return PlanOrder(
        operations_team_name=body["operations_team_name"],
        waves=waves,
        name=body.get("name"),
        seed=body.get("seed"),
        include_older_versions=body.get("include_older_versions", False),
        continue_if_clean=body["continue_if_clean"],
        api_key_id=api_key_id,
    )


def read_change(body: Mapping[str, Any], *, now: datetime) -> dict[str, Any]:
    """Return the new values of a wave in a body loaded by `WaveChangeBodySchema`, by member of `WaveOrder`.

    None stands for no window, no limit, the usual error threshold, and the hold of the plan. Raise
    RequestFailedValidationError with all errors.
    """
    errors: list[ErrorItem] = []
    read = _read_wave({name: it for name, it in body.items() if it is not None}, "", "", errors, now)
    if errors:
        raise RequestFailedValidationError(errors=errors)
    changes = {name: body[name] for name in _AS_GIVEN if name in body}
    changes |= {"window": read.window} if "window" in body else {}
    return changes | ({"error_threshold": read.error_threshold} if "brake" in body else {})


def _faults_of_choice(given: Mapping[str, Any], at: str, *, is_first: bool, is_last: bool) -> list[ErrorItem]:
    chosen = [name for name in _CHOICES if given.get(name)]
    if len(chosen) != 1:
        detail = f"Expected exactly one of {', '.join(_CHOICES)}."
        return [ErrorItem("required" if not chosen else "invalid", detail, at)]
    if chosen == ["sample"] and not is_first:
        return [ErrorItem("invalid", "Only the first wave can be drawn at random.", f"{at}.sample")]
    if chosen == ["rest"] and not is_last:
        return [ErrorItem("invalid", "Only the last wave can take the rest.", f"{at}.rest")]
    return []


def _read_wave(
    given: Mapping[str, Any], window_at: str, threshold_at: str, errors: list[ErrorItem], now: datetime
) -> WaveOrder:
    """Return the order of one wave, and add its errors to `errors`."""
    window = threshold = None
    if "window" in given:
        window = _read_window(given["window"], f"{window_at}.window".lstrip("."), errors, now)
    try:
        threshold = read_threshold(**given.get("brake", {}))
    except RequestFailedValidationError as error:
        at = f"{threshold_at}.brake".lstrip(".")
        errors += [ErrorItem(it.code, it.detail, f"{at}.{it.attr}") for it in error.errors]
    names = ("sample", "size", "name", "lines_per_minute", "continue_if_clean")
    others = {name: given.get(name) for name in names}
    return WaveOrder(
        **others, accounts=given.get("accounts") or None, window=window, error_threshold=threshold
    )


def _read_window(given: Mapping[str, Any], at: str, errors: list[ErrorItem], now: datetime) -> Window | None:
    start, end = time.fromisoformat(given["start"]), time.fromisoformat(given["end"])
    if start == end:
        errors.append(ErrorItem("invalid", "The window ends when it starts, so it never opens.", f"{at}.end"))
    try:
        today = now.astimezone(ZoneInfo(given["time_zone"])).date()
    except (ZoneInfoNotFoundError, ValueError, OSError):
        detail = "This is not the name of a time zone in the IANA database, such as Europe/Amsterdam."
        errors.append(ErrorItem("invalid_choice", detail, f"{at}.time_zone"))
        return None
    days = tuple(map(Weekday, given.get("days") or Weekday))
    first_day = given.get("first_day", today)
    return Window(start=start, end=end, time_zone=given["time_zone"], first_day=first_day, days=days)
