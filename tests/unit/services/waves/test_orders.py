"""What a plan may ask for."""

from datetime import date, time
from typing import Any

import pytest

from migration_service.errors import RequestFailedValidationError
from migration_service.services.batches.error_thresholds import ErrorThreshold
from migration_service.services.waves.orders import PlanOrder, WaveOrder, read_plan
from migration_service.services.waves.windows import Window
from migration_service.states import Weekday
from unit.services.waves.wave_rows import EVENING

_NIGHT = {"start": "22:00", "end": "06:00", "time_zone": "Pacific/Auckland"}


def _read(*waves: dict[str, Any], **more: Any) -> PlanOrder:
    body = {"operations_team_name": "Team", "continue_if_clean": False, "waves": waves} | more
    return read_plan(body, now=EVENING, api_key_id=7)


def test_a_plan_is_read() -> None:
    brake = {"stop_after_errors": "5"}
    waves: list[dict[str, Any]] = [
        {"sample": 3, "name": "Pilot", "window": _NIGHT | {"days": ["mon"]}, "brake": brake},
        {"size": 4, "lines_per_minute": 60, "continue_if_clean": False},
        {"accounts": ["a"], "window": _NIGHT | {"first_day": date(2026, 5, 1)}},
        {"rest": True},
    ]
    day = {"start": "06:00", "end": "22:00", "time_zone": "UTC"}
    plan = _read(*waves, window=day, lines_per_minute=30, name="Spring", seed=0, continue_if_clean=True)
    night: dict[str, Any] = {"start": time(22), "end": time(6), "time_zone": "Pacific/Auckland"}
    # It is tomorrow already in Auckland.
    mondays = Window(**night, first_day=date(2026, 3, 3), days=(Weekday.MONDAY,))
    usual = Window(start=time(6), end=time(22), time_zone="UTC", first_day=date(2026, 3, 2))
    assert plan == PlanOrder(
        operations_team_name="Team",
        name="Spring",
        seed=0,
        continue_if_clean=True,
        api_key_id=7,
        waves=[
            WaveOrder(
                sample=3,
                name="Pilot",
                window=mondays,
                error_threshold=ErrorThreshold(stop_after_errors="5"),
                lines_per_minute=30,
            ),
            WaveOrder(size=4, lines_per_minute=60, window=usual, continue_if_clean=False),
            WaveOrder(
                accounts=["a"], lines_per_minute=30, window=Window(**night, first_day=date(2026, 5, 1))
            ),
            WaveOrder(lines_per_minute=30, window=usual),
        ],
    )


def test_a_fault_of_all_waves_is_named_once() -> None:
    with pytest.raises(RequestFailedValidationError) as raised:
        _read({"size": 1}, {"size": 1}, window=_NIGHT | {"end": "22:00", "time_zone": "Mars"})
    assert [(it.code, it.attr) for it in raised.value.errors] == [
        ("invalid", "window.end"),
        ("invalid_choice", "window.time_zone"),
    ]
