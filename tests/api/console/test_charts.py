"""What the charts of the console draw, on their real pages: it equals the numbers, which a table has, too."""

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

from migration_service.blueprints.console.charts import draw_timeline

_START = datetime(2026, 3, 2, 12, tzinfo=UTC)


def test_a_wave_that_was_stopped_ran_until_that_was_decided() -> None:
    moments = ("reconciled_at", "opens_at", "closes_at", "ended_at", "ends_at_50", "ends_at_90")
    values = {"number": 1, "is_over": True, "began_at": _START, "decided_by": "Ada"}
    decided_at = _START + timedelta(minutes=30)
    wave: Any = SimpleNamespace(**dict.fromkeys(moments), **values, decided_at=decided_at)
    timeline = draw_timeline([wave], _START + timedelta(hours=1))
    assert timeline is not None
    assert (timeline.until, timeline.lanes[0].run) == (decided_at, (0.0, 1.0))
